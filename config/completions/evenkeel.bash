# Completion of evenkeel(8) for bash; installed as bash-completion's completions/evenkeel.

_evenkeel()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' word i
	local commands='run check explain init health schema' options

	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case " $commands " in
		*" $word "*)
			command=$word
			break
			;;
		esac
	done

	case $previous in
	-c | --config)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	--log-level)
		mapfile -t COMPREPLY < <(compgen -W 'debug info warn error' -- "$current")
		return
		;;
	--format)
		mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$current")
		return
		;;
	--admin)
		mapfile -t COMPREPLY < <(compgen -W '127.0.0.1:9128 off' -- "$current")
		return
		;;
	--listen)
		mapfile -t COMPREPLY < <(compgen -W '127.0.0.1:3128' -- "$current")
		return
		;;
	esac

	case $command in
	'') options="$commands -c --config --listen --admin --log-level -h --help -V --version" ;;
	run) options='-c --config --listen --admin --log-level' ;;
	check) options='-c --config --json --format' ;;
	explain)
		options='-c --config --json --format'
		case $current in
		-*) ;;
		*) options="$options GET HEAD OPTIONS POST PUT PATCH DELETE CONNECT http:// https://" ;;
		esac
		;;
	init) options='--from-env' ;;
	health) options='-c --config --admin --ready' ;;
	schema) options='' ;;
	esac
	[[ -z $command ]] || options="$options -h --help"
	if [[ $command == check && $current != -* ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
	fi
	mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
}

complete -F _evenkeel evenkeel
