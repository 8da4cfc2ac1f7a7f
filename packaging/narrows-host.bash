# Completion of narrows-host for bash, written by tools/manual.py.
_narrows_host() {
    local word=${COMP_WORDS[COMP_CWORD]} words=
    if [[ $COMP_CWORD == 1 ]]; then
        words='measure latency serve tune with machine'
    elif [[ $word == -* ]]; then
        case ${COMP_WORDS[1]} in
        measure) words='--cc --dscp --duration --ecn --idle --insecure --interval-lines --ip --max-data --pacer --pacing --parts --ping-interval --plugin --port --repeats --speaks --stream --streams --table --test --tied --token --token-file --transport --help' ;;
        latency) words='--count --dscp --duration --interval --interval-lines --ip --lead --load --no-stamps --pace --policy --port --rounds --size --slow --speaks --stall --stream --table --tied --timeout --token --token-file --help' ;;
        serve) words='--bind --board --bytes --clients --clients-per-address --duration --echo --irtt --limits --memory --metrics --net-admin --new-connections --packets --plugin --policy --port --public --rate --stall --stamp --systemd-unit --tied --token --token-file --udp-packets --udp-rate --user --xdp --xdp-port --help' ;;
        tune) words='--all --cc --collector --confirm-within --dev --down --ecn --facts --force --id --install --json --last --mtu-probing --netns --qdisc --rate --replace --root --rtt --set --shape --sqm --state --stop-after --table --to --up --help' ;;
        with) words='--cc --help' ;;
        machine) words='--help' ;;
        esac
    elif [[ $COMP_CWORD == 2 ]]; then
        case ${COMP_WORDS[1]} in
        tune) words='apply audit confirm plan revert verify' ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _narrows_host narrows-host
