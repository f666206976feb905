#compdef outlive
# Completion of outlive in zsh: verbs, options, jobs, names, groups, sessions and labels as they are now.
_outlive() {
    local found line
    local -a candidates
    if ! found=$("${words[1]}" complete $((CURRENT - 1)) -- "${words[@]}" 2>/dev/null); then
        # A file, or a program with its arguments.
        _files
        return
    fi
    for line in "${(@f)found}"; do
        [[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    _describe -V -t candidates outlive candidates
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _outlive outlive
