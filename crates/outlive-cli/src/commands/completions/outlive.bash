# Completion of outlive in bash: verbs, options, jobs, names, groups, sessions and labels as they are now.
_outlive() {
    local found value help line i widest=0 values=() helps=()
    # What is to be inserted comes with the quotes that it needs where the cursor is: bash takes it as it is.
    if ! found=$("$1" complete --line "${COMP_LINE:0:COMP_POINT}" --replaced "$2" 2>/dev/null); then
        # A file, or a program with its arguments.
        compopt -o default 2>/dev/null
        return
    fi
    while IFS=$'\t' read -r value help; do
        [[ $value ]] || continue
        values+=("$value")
        helps+=("$help")
        ((${#value} > widest)) && widest=${#value}
    done <<<"$found"
    COMPREPLY=("${values[@]}")
    # What is listed is explained; what is inserted, alone or from a menu, is not.
    if ((${#values[@]} > 1)) && [[ $COMP_TYPE != 37 && $COMP_TYPE != 42 ]]; then
        for i in "${!values[@]}"; do
            [[ ${helps[i]} ]] || continue
            printf -v line '%-*s  (%s)' "$widest" "${values[i]}" "${helps[i]}"
            COMPREPLY[i]=${line:0:${COLUMNS:-80}-2}
        done
    fi
}
complete -o nosort -F _outlive outlive 2>/dev/null || complete -F _outlive outlive
