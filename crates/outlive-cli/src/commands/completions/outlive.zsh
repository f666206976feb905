#compdef outlive
# Completion of outlive in zsh: verbs, options, jobs, names, groups, sessions and labels as they are now.
_outlive() {
    local found line value
    local -a candidates plain
    # Without the quotes; zsh quotes what it inserts.
    plain=("${(@Q)words}")
    plain[CURRENT]=${(Q)IPREFIX}${(Q)PREFIX}
    if ! found=$("${plain[1]}" complete $((CURRENT - 1)) -- "${plain[@]}" 2>/dev/null); then
        # A file, or a program with its arguments.
        _files
        return
    fi
    for line in "${(@f)found}"; do
        [[ -n $line ]] || continue
        # In what _describe is given, a colon ends the value and a backslash quotes.
        value=${${line%%$'\t'*}//\\/\\\\}
        candidates+=("${value//:/\\:}:${line#*$'\t'}")
    done
    _describe -V -t candidates outlive candidates
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _outlive outlive
