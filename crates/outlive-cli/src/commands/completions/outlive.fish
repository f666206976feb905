# Completion of outlive in fish: verbs, options, jobs, names, groups, sessions and labels as they are now.
function __outlive_complete
    # Without the quotes; fish quotes what it inserts.
    set -l typed (commandline -ct)
    set -l word (string unescape -- $typed)
    or set word $typed
    set -l words (commandline -opc) "$word"
    # A file, or a program with its arguments, where outlive does not know.
    $words[1] complete (math (count $words) - 1) -- $words 2>/dev/null
    or __fish_complete_path (commandline -ct)
end
complete -c outlive -e
complete -c outlive -f -k -a '(__outlive_complete)'
