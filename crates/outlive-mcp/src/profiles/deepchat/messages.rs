//! The messages that the design has by key, in the languages of its program.
//!
//! The language is the one of the user's environment: `LC_ALL`, else `LC_MESSAGES`, else `LANG`; English where that is not among them.

/// A message of the design, by its key.
#[derive(Debug)]
pub(super) struct Message {
    /// Its key, for whoever looks for it.
    #[cfg_attr(not(test), expect(dead_code, reason = "it names the message, as the design does"))]
    key: &'static str,
    /// The text for each of [`LANGUAGES`]; `{sessionId}` stands for the session.
    texts: [&'static str; LANGUAGES.len()],
}

/// The first is the default.
const LANGUAGES: [&str; 12] = [
    "en-US", "zh-CN", "zh-TW", "zh-HK", "ja-JP", "ko-KR", "fr-FR", "ru-RU", "pt-BR", "fa-IR", "da-DK",
    "he-IL",
];

pub(super) static SESSION_NOT_FOUND: Message = Message {
    key: "tools.process.sessionNotFound",
    texts: [
        "Session {sessionId} not found",
        "未找到会话 {sessionId}",
        "找不到工作階段 {sessionId}",
        "找不到工作階段 {sessionId}",
        "セッション {sessionId} が見つかりません",
        "세션 {sessionId}을(를) 찾을 수 없습니다",
        "Session {sessionId} introuvable",
        "Сеанс {sessionId} не найден",
        "Sessão {sessionId} não encontrada",
        "نشست {sessionId} پیدا نشد",
        "Sessionen {sessionId} blev ikke fundet",
        "ההפעלה {sessionId} לא נמצאה",
    ],
};

pub(super) static SESSION_NOT_RUNNING: Message = Message {
    key: "tools.process.sessionNotRunning",
    texts: [
        "Session {sessionId} is not running",
        "会话 {sessionId} 未在运行",
        "工作階段 {sessionId} 未在執行",
        "工作階段 {sessionId} 未在執行",
        "セッション {sessionId} は実行中ではありません",
        "세션 {sessionId}이(가) 실행 중이 아닙니다",
        "La session {sessionId} n'est pas en cours d'exécution",
        "Сеанс {sessionId} не выполняется",
        "A sessão {sessionId} não está em execução",
        "نشست {sessionId} در حال اجرا نیست",
        "Sessionen {sessionId} kører ikke",
        "ההפעלה {sessionId} אינה פועלת",
    ],
};

pub(super) static STDIN_NOT_AVAILABLE: Message = Message {
    key: "tools.process.stdinNotAvailable",
    texts: [
        "Session {sessionId} stdin is not available",
        "会话 {sessionId} 的标准输入不可用",
        "工作階段 {sessionId} 的標準輸入無法使用",
        "工作階段 {sessionId} 的標準輸入無法使用",
        "セッション {sessionId} の標準入力は利用できません",
        "세션 {sessionId}의 표준 입력을 사용할 수 없습니다",
        "L'entrée standard de la session {sessionId} n'est pas disponible",
        "Стандартный ввод сеанса {sessionId} недоступен",
        "A entrada padrão da sessão {sessionId} não está disponível",
        "ورودی استاندارد نشست {sessionId} در دسترس نیست",
        "Standardinput for sessionen {sessionId} er ikke tilgængeligt",
        "הקלט התקני של ההפעלה {sessionId} אינו זמין",
    ],
};

impl Message {
    /// Returns the text about a session, in the user's language.
    pub(super) fn about(&self, session: &str) -> String {
        let set = |variable: &str| std::env::var(variable).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set).unwrap_or_default();
        self.texts[language(&locale)].replace("{sessionId}", session)
    }
}

/// Returns the index of the language of a locale such as `zh_CN.UTF-8`: language and country, else the first of the language.
fn language(locale: &str) -> usize {
    let tag = locale.split(['.', '@']).next().unwrap_or_default().replace('_', "-");
    let is_of_language = |known: &&str| !tag.is_empty() && known.split('-').next() == tag.split('-').next();
    let exactly = LANGUAGES.iter().position(|known| known.eq_ignore_ascii_case(&tag));
    exactly.or_else(|| LANGUAGES.iter().position(is_of_language)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_has_a_language() {
        for (locale, known) in [
            ("zh_CN.UTF-8", "zh-CN"),
            ("zh_TW", "zh-TW"),
            ("fr_CA.UTF-8@euro", "fr-FR"),
            ("pt_PT", "pt-BR"),
            ("C.UTF-8", "en-US"),
            ("POSIX", "en-US"),
            ("de_DE.UTF-8", "en-US"),
            ("", "en-US"),
        ] {
            assert_eq!(LANGUAGES[language(locale)], known, "{locale}");
        }
    }

    #[test]
    fn every_message_is_there_in_every_language() {
        for message in [&SESSION_NOT_FOUND, &SESSION_NOT_RUNNING, &STDIN_NOT_AVAILABLE] {
            assert!(message.key.starts_with("tools.process."), "{message:?}");
            assert!(message.texts.iter().all(|text| text.matches("{sessionId}").count() == 1), "{message:?}");
        }
    }
}
