
elsewhere='belongs to the host, not to this network namespace; not changed'

undo() {
  for number in $made; do
    "state_$number" && continue
    "back_$number" || fail "change $number could not be reverted"
  done
}

apply() {
  [ "$(id -u)" = 0 ] || { fail "this needs root: sudo sh $0 apply"; exit 2; }
  before
  for number in $numbers; do
    "state_$number"
    case $? in
      1) say "$("name_$number"): already in effect"; continue ;;
      3) say "$("name_$number"): $elsewhere"; continue ;;
      2) fail "$("name_$number"): its state is not the one in the plan; not changed, and earlier changes are reverted"; undo; exit 1 ;;
    esac
    if "make_$number"; then
      made="$number $made"
      "state_$number"
      if [ $? -eq 1 ]; then say "$("name_$number"): done"; continue; fi
    else
      made="$number $made"
    fi
    fail "$("name_$number"): failed; all changes are reverted"
    undo
    exit 1
  done
}

revert() {
  [ "$(id -u)" = 0 ] || { fail "this needs root: sudo sh $0 revert"; exit 2; }
  wrong=0
  for number in $backwards; do
    "state_$number"
    case $? in
      0) say "$("name_$number"): not in effect, nothing to revert" ;;
      3) say "$("name_$number"): $elsewhere" ;;
      1)
        if "back_$number"; then
          say "$("name_$number"): reverted"
        else
          fail "$("name_$number"): could not be reverted"
          wrong=1
        fi
        ;;
      *) fail "$("name_$number"): changed since by something else; not reverted"; wrong=1 ;;
    esac
  done
  return $wrong
}

verify() {
  wrong=0
  for number in $numbers; do
    "state_$number"
    case $? in 1 | 3) continue ;; esac
    fail "$("name_$number"): not in effect"
    wrong=1
  done
  [ $wrong -eq 0 ] && say "all changes are in effect"
  return $wrong
}

case ${1-} in
  apply) apply ;;
  revert) revert ;;
  verify) verify ;;
  *) fail "sh $0 apply | revert | verify"; exit 2 ;;
esac
