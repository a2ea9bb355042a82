# Sourced by the scripts beside it, after debian.sh: a Python that is new enough, and virtual environments.

# find_python: prints the interpreter to use, HEADRACE_PYTHON or the newest supported one on the PATH.
find_python() {
  local candidate
  for candidate in ${HEADRACE_PYTHON:-python3.13 python3.12 python3.11 python3}; do
    if command -v "$candidate" >/dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "Headrace needs Python 3.11 or newer; install it (Debian: apt-get install python3 python3-venv) or set HEADRACE_PYTHON."
}

# make_venv DIRECTORY: creates the virtual environment unless it is there and has pip.
make_venv() {
  if [ -x "$1/bin/python" ] && "$1/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
  local python
  python=$(find_python)
  "$python" -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv ||
    die "Python's venv module is missing: run 'apt-get install python3-venv' and start again."
  "$python" -m venv "$1"
}
