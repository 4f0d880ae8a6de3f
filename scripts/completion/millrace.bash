# Completion of millrace's command line in bash. Installed where bash-completion looks; or: source millrace.bash

_millrace() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local commands="run check explain show nf doctor verify tenant profile bench" command="" sub="" i
    for ((i = 1; i < COMP_CWORD; ++i)); do
        if [[ ${COMP_WORDS[i]} == --nf ]]; then
            ((++i))
        elif [[ -z $command && " $commands " == *" ${COMP_WORDS[i]} "* ]]; then
            command=${COMP_WORDS[i]}
        elif [[ ( $command == nf || $command == bench ) && -z $sub ]]; then
            sub=${COMP_WORDS[i]}
        fi
    done

    case $previous in
        -d | --device)
            [[ $command == tenant ]] &&
                { mapfile -t COMPREPLY < <(compgen -W "auto process gpu" -- "$current"); return; }
            mapfile -t COMPREPLY < <(compgen -W "cpu sim cuda cuda:0+cuda:1 cuda+cpu" -- "$current"); return ;;
        --lanes) mapfile -t COMPREPLY < <(compgen -W "1 2 4 8 32" -- "$current"); return ;;
        --isolation) mapfile -t COMPREPLY < <(compgen -W "none checked fenced" -- "$current"); return ;;
        --window | --guard | --budget | --shared) return ;;
        --threading) mapfile -t COMPREPLY < <(compgen -W "full-path master-worker" -- "$current"); return ;;
        --mode)
            [[ $command == bench ]] &&
                { mapfile -t COMPREPLY < <(compgen -W "fused pipelined no-sharing persistent" -- "$current"); return; }
            mapfile -t COMPREPLY < <(compgen -W "fused persistent" -- "$current"); return ;;
        --transfer-in) mapfile -t COMPREPLY < <(compgen -W "auto packed rows gather zero-copy" -- "$current"); return ;;
        --transfer-out) mapfile -t COMPREPLY < <(compgen -W "auto region selective zero-copy" -- "$current"); return ;;
        --keep-kernels) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
        -o | --output) [[ $command == bench ]] && { mapfile -t COMPREPLY < <(compgen -f -- "$current"); return; }
            mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
        --popularity) mapfile -t COMPREPLY < <(compgen -W "even zipf" -- "$current"); return ;;
        --nids-flows) mapfile -t COMPREPLY < <(compgen -W "none flows streams messages" -- "$current"); return ;;
        --payload) mapfile -t COMPREPLY < <(compgen -W "http capture random" -- "$current"); return ;;
        --cipher) mapfile -t COMPREPLY < <(compgen -W "aes-128-ctr aes-256-ctr aes-128-cbc aes-256-cbc aes-128-gcm aes-256-gcm" -- "$current"); return ;;
        --layout) mapfile -t COMPREPLY < <(compgen -W "buffers contiguous" -- "$current"); return ;;
        --restore) mapfile -t COMPREPLY < <(compgen -W "auto all headers nothing" -- "$current"); return ;;
        --data) mapfile -t COMPREPLY < <(compgen -d -- "$current"); return ;;
        --verdicts | --timeline | --nf | --trace | --config | --replay | --test | --run | --rewrite | --ptx | \
            --function | --manager | --options) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
        --fields) mapfile -t COMPREPLY < <(compgen -W "5 12" -- "$current"); return ;;
        -n | --rules | -c | --classes | --full | --overlap | --seed | --packets) return ;;
        --cores | --for | --batches | -w | --workers | --chain | --sizes | --warm-up | --max-batch | --max-delay | \
            --burst | --buffers | --patterns) return ;;
        --flows | --tunnels | --chains | --share | --shares | --latency | --most | --step | --descriptors) return ;;
        --socket) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
        --by) mapfile -t COMPREPLY < <(compgen -W "bytes packets duration" -- "$current"); return ;;
        --only) mapfile -t COMPREPLY < <(compgen -W "domains batch fence victim killed mixes" -- "$current"); return ;;
        --limit | --match | --seconds | --mixes | --kills | --routes) return ;;
        --json)
            [[ $command == doctor || $command == show || $command == verify ]] ||
                { mapfile -t COMPREPLY < <(compgen -f -- "$current"); return; } ;;
    esac

    local options="--help"
    case $command in
        "") options+=" --version --nf" ;;
        run) options+=" --device --output --workers --cores --verdicts --timeline --json --for --mode --call-thread --checked"
            options+=" --socket --no-socket --quiet" ;;
        check) options+=" --device --output --workers --plugins" ;;
        explain) options+=" --device --output --workers" ;;
        show) options+=" --socket --limit --match --by --json" ;;
        doctor) options+=" --json" ;;
        tenant) options+=" --manager --name --nf --options --output --device --once --quiet" ;;
        verify) options+=" --function --architecture --ptx --isolation --window --guard --budget --shared --rewrite --json" ;;
        profile) options+=" --device --for --json --chain --size" ;;
        nf)
            [[ $sub == check ]] && options+=" --architecture"
            [[ $sub == watch ]] && options+=" --test --run --device" ;;
        bench)
            case $sub in
                rules) options+=" --rules --classes --full --overlap --fields --seed --output --trace --packets --measure --figures --device"
                       options+=" --data --for --headers --lanes --engines --sets --most-rules --acl --json" ;;
                transfer) options+=" --device --for --json" ;;
                tenants) options+=" --device --only --chain --sizes --workers --cores --call-thread --seconds --mixes --kills --seed --rules --routes --json" ;;
                chain | nf | modes | sharing | latency)
                    options+=" --chain --config --device --workers --cores --sizes --replay --for --warm-up --threading --mode --transfer-in --transfer-out --call-thread --graphs"
                    options+=" --keep-kernels --whole-frames --device-halves --batches --max-batch --max-delay --burst --buffers --many-rules --patterns --nids-flows --payload"
                    options+=" --flows --tunnels --cipher --chains --data --layout --restore --unchecked --json"
                    [[ $sub == chain || $sub == nf ]] && options+=" --kernels --kernels-only"
                    [[ $sub == modes ]] && options+=" --share --transfers"
                    [[ $sub == sharing ]] && options+=" --share --latency"
                    [[ $sub == latency ]] && options+=" --shares --most --step --descriptors"
                    ;;
            esac ;;
    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    elif [[ -z $command ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    elif [[ $command == show ]]; then
        mapfile -t COMPREPLY < <(compgen -W "ports neighbours routes sas chains flows back-ends tenants" -- "$current")
    elif [[ $command == nf ]]; then
        if [[ -z $sub ]]; then
            mapfile -t COMPREPLY < <(compgen -W "list show test check watch" -- "$current")
        elif [[ $sub == show ]]; then
            local names
            names=$("${COMP_WORDS[0]}" nf list 2> /dev/null | tail -n +2 | cut -d' ' -f1)
            mapfile -t COMPREPLY < <(compgen -W "$names" -- "$current")
        elif [[ $sub == test || $sub == check || $sub == watch ]]; then
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
    elif [[ $command == bench ]]; then
        [[ -n $sub ]] || mapfile -t COMPREPLY < <(compgen -W "chain nf modes sharing latency transfer rules" -- "$current")
    elif [[ $command == verify ]]; then
        mapfile -t COMPREPLY < <(compgen -f -X '!*.ptx' -- "$current"; compgen -d -- "$current")
    elif [[ $command != doctor && $command != profile ]]; then
        # Configurations, and the folders that lead to them.
        mapfile -t COMPREPLY < <(compgen -f -X '!*.y*ml' -- "$current"; compgen -d -- "$current")
    fi
}
complete -o filenames -F _millrace millrace
