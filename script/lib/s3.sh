# Sourced by the scripts beside it, after debian.sh: an S3 server for tests.

S3_SERVER=github.com/versity/versitygw/cmd/versitygw
S3_SERVER_VERSION=1.8.0

# s3_server: prints the path of the Versity gateway, built once with Go; fails with a sentence.
s3_server() {
  local folder="${XDG_CACHE_HOME:-$HOME/.cache}/headrace/versitygw-$S3_SERVER_VERSION"
  if [ ! -x "$folder/versitygw" ]; then
    command -v go >/dev/null || {
      say "There is no Go to build an S3 server with: tables in buckets are not tested. Install Go 1.25 or later, or name a Versity gateway with HEADRACE_S3_SERVER."
      return 1
    }
    say "Building an S3 server (a few minutes, once) ..."
    mkdir -p "$folder.part"
    GOBIN="$folder.part" go install -ldflags='-s -w' "$S3_SERVER@v$S3_SERVER_VERSION" >&2 || {
      say "The S3 server could not be built (see above): tables in buckets are not tested."
      return 1
    }
    mkdir -p "$folder" && mv "$folder.part/versitygw" "$folder/versitygw" && rmdir "$folder.part"
  fi
  printf '%s\n' "$folder/versitygw"
}
