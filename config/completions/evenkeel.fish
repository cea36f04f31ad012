# Completion of evenkeel(8) for fish; installed as vendor_completions.d/evenkeel.fish.

set -l commands run check explain init health schema

complete -c evenkeel -f
complete -c evenkeel -n "not __fish_seen_subcommand_from $commands" -a run -d 'run the proxy in the foreground'
complete -c evenkeel -n "not __fish_seen_subcommand_from $commands" -a check -d 'validate a policy file'
complete -c evenkeel -n "not __fish_seen_subcommand_from $commands" -a explain -d 'what the policy means for one request'
complete -c evenkeel -n "not __fish_seen_subcommand_from $commands" -a init -d 'write a small policy file to stdout'
complete -c evenkeel -n "not __fish_seen_subcommand_from $commands" -a health -d 'ask a running proxy how it is'
complete -c evenkeel -n "not __fish_seen_subcommand_from $commands" -a schema -d 'print the JSON Schema of the policy file'

complete -c evenkeel -s h -l help -d 'show help'
complete -c evenkeel -s V -l version -d 'show the version'
complete -c evenkeel -n "not __fish_seen_subcommand_from init schema" -s c -l config -r -F -d 'policy file'
complete -c evenkeel -n "not __fish_seen_subcommand_from check explain init health schema" -l listen -x -a 127.0.0.1:3128 -d 'listen here'
complete -c evenkeel -n "not __fish_seen_subcommand_from check explain init schema" -l admin -x -a '127.0.0.1:9128 off' -d 'admin port'
complete -c evenkeel -n "not __fish_seen_subcommand_from check explain init health schema" -l log-level -x -a 'debug info warn error' -d 'least level that is logged'
complete -c evenkeel -n "__fish_seen_subcommand_from check explain" -l json -d 'JSON in place of text'
complete -c evenkeel -n "__fish_seen_subcommand_from check explain" -l format -x -a 'text json' -d output
complete -c evenkeel -n "__fish_seen_subcommand_from init" -l from-env -d 'propose upstreams from environment variables'
complete -c evenkeel -n "__fish_seen_subcommand_from health" -l ready -d 'ready for work, not only alive'
complete -c evenkeel -n "__fish_seen_subcommand_from check" -F
complete -c evenkeel -n "__fish_seen_subcommand_from explain" -a 'GET HEAD OPTIONS POST PUT PATCH DELETE CONNECT http://'
