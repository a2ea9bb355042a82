# Sourced by the scripts beside it: words on stderr, and Debian packages where we may install them.

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo "$@"
  else return 1; fi
}

# apt_install PACKAGE...: fails where there is no apt or no way to become root.
apt_install() {
  command -v apt-get >/dev/null || return 1
  say "Installing $* ..."
  as_root apt-get update -qq >&2 &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

# need_promtool: checks the rules of `headrace generate prometheus`. Without apt, its tests are skipped.
need_promtool() {
  command -v promtool >/dev/null || apt_install prometheus || say "promtool is missing: its tests are skipped"
}

# need_java: Spark wants Java 17 or 21; Debian's releases have the one or the other.
need_java() {
  if [ -x "${JAVA_HOME:-}/bin/java" ] || command -v java >/dev/null; then return; fi
  apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless ||
    die "Pipelines run on Spark, which needs Java 17 or 21: install it (Debian: apt-get install openjdk-17-jre-headless) and start again."
}
