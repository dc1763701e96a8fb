#!/usr/bin/env bash
# Tests varifocal.conf: nginx and a daemon on loopback ports, a job through the proxy with certificate and token, refused
# callers, and floods beside it. Needs nginx, openssl and the release build; ends every process that it starts.
#
#   deploy/nginx/check.sh [BIN]        BIN: the directory of varifocald and varifocal, default build/release/bin
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${1:-build/release/bin}")
command -v nginx >/dev/null || PATH=$PATH:/usr/sbin
command -v nginx >/dev/null || { echo "nginx is not installed: apt-get install nginx-light"; exit 1; }
work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $*"; tail -5 "$work/daemon.log" "$work/error.log" 2>/dev/null; exit 1; }
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# ---- Certificates, tokens, configuration ----
cd "$work"
key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
printf '[ca]\ndefault_ca=one\n[one]\ndatabase=index\nserial=serial\ncrlnumber=serial\nnew_certs_dir=.\ndefault_md=sha256\ndefault_days=36500\ndefault_crl_days=36500\npolicy=any\n[any]\ncommonName=supplied\n' >ca.conf
echo 'subjectAltName=DNS:localhost,IP:127.0.0.1' >names
touch index; echo 1000 >serial
{
  openssl req -x509 $key -days 36500 -subj /CN=ca -keyout ca.key -out ca.pem
  openssl req -x509 $key -days 36500 -subj /CN=other -keyout other.key -out other.pem
  for name in server client revoked; do
    openssl req $key -subj /CN=$name -keyout $name.key -out $name.csr
    openssl ca -batch -notext -config ca.conf -cert ca.pem -keyfile ca.key -extfile names -in $name.csr -out $name.pem
  done
  openssl ca -config ca.conf -cert ca.pem -keyfile ca.key -revoke revoked.pem
  openssl ca -config ca.conf -cert ca.pem -keyfile ca.key -gencrl -out crl.pem
} 2>openssl.log || fail "openssl: $(cat openssl.log)"
for role in viewer submitter; do
  openssl rand -hex 32 >$role.token
  echo "$role $(head -c -1 $role.token | sha256sum | cut -d' ' -f1) $role" >>tokens
done
cd - >/dev/null
daemon_port=$(free_port); front_port=$(free_port)
sed -e "s#127.0.0.1:50151;#127.0.0.1:$daemon_port;#; s#listen 443#listen 127.0.0.1:$front_port#; s#varifocal.example#localhost#" \
    -e "s#/etc/varifocal/server#$work/server#; s#/etc/varifocal/clients.pem#$work/ca.pem#; s#/etc/varifocal/revoked.pem#$work/crl.pem#" \
    deploy/nginx/varifocal.conf >"$work/front.conf"
cat >"$work/nginx.conf" <<CONF
daemon off;
pid $work/nginx.pid;
error_log $work/error.log warn;
worker_processes 1;
worker_rlimit_nofile 4096;
events { worker_connections 2048; }
http {
  access_log off;
  client_body_temp_path $work/body; proxy_temp_path $work/proxy; fastcgi_temp_path $work/fastcgi;
  uwsgi_temp_path $work/uwsgi; scgi_temp_path $work/scgi;
  include $work/front.conf;
}
CONF
nginx -t -q -c "$work/nginx.conf" 2>"$work/error.log" || fail "the configuration"

# ---- Both run ----
"$bin/varifocald" --db="$work/r.db" --model=base=models/baseline --listen=127.0.0.1:$daemon_port --token-file="$work/tokens" \
  --data-root="$work" --port-file="$work/ready" 2>"$work/daemon.log" &
daemon=$!; pids+=($daemon)
nginx -c "$work/nginx.conf" 2>>"$work/error.log" &
pids+=($!)
for _ in $(seq 300); do [ -e "$work/ready" ] && [ -e "$work/nginx.pid" ] && break; sleep 0.2; done
[ -e "$work/ready" ] || fail "the daemon does not start"
through() {  # CERTIFICATE TOKEN VERB..
  local certificate=$1 token=$2; shift 2
  timeout 120 "$bin/varifocal" "$@" --daemon=localhost:$front_port --tls-ca="$work/ca.pem" ${certificate:+--tls-cert="$work/$certificate.pem" --tls-key="$work/$certificate.key"} \
    ${token:+--token-file="$work/$token.token"} 2>&1
}
refused() {  # WORDS CERTIFICATE TOKEN VERB..
  local words=$1 out; shift
  if out=$(through "$@"); then fail "was served: $*"; fi
  grep -q "$words" <<<"$out" || fail "expected '$words' for $*: $out"
  echo "refused ($words): certificate=${1:-none} token=${2:-none} ${*:3}"
}
grep -q base <<<"$(through client viewer models)" || fail "a viewer through the proxy"
refused 'does not allow this call' client viewer unload base
refused 'no valid token' client '' models
refused 'a valid certificate is needed' '' viewer models
refused 'a valid certificate is needed' revoked viewer models

# ---- A job, and floods beside it ----
cat >"$work/suite.yaml" <<SUITE
name: front
lengths: [1024]
samples: 200
tasks: [{kind: recall_kv}]
SUITE
through client submitter submit "$work/suite.yaml" --models=base >"$work/submitted" || fail "submit: $(cat "$work/submitted")"
rss() { awk '/VmRSS/ {print $2}' /proc/$daemon/status; }
descriptors() { ls /proc/$daemon/fd | wc -l; }
rss_before=$(rss); fds_before=$(descriptors)
for flood in "resets 20000" "headers 500" "idle 1500" "garbage 100"; do
  python3 deploy/nginx/flood.py $front_port "$work/ca.pem" "$work/client.pem" "$work/client.key" $flood >"$work/flood" 2>&1 &
  flooder=$!
  sleep 1
  start=$(date +%s.%N)
  for attempt in 1 2 3 4 5; do  # calls of this address may be limited meanwhile
    through client viewer list >"$work/list" && break
    [ $attempt -lt 5 ] || fail "no answer beside '$flood': $(cat "$work/list")"
    sleep 2
  done
  answered=$(python3 -c "import time; print(round(time.time() - $start, 1))")
  wait $flooder || fail "$flood: $(cat "$work/flood")"
  kill -0 $daemon || fail "the daemon died of '$flood'"
  echo "$(cat "$work/flood"); a call beside them was answered in $answered s"
done
python3 deploy/nginx/flood.py $daemon_port - - - fields 120 || fail "fields"
kill -0 $daemon || fail "the daemon died of unexpected header fields"
through client viewer watch 1 >"$work/watch" || fail "watch: $(cat "$work/watch")"
grep -qi 'succeeded' <<<"$(through client viewer list)" || fail "the job: $(through client viewer list)"
sleep 3
rss_after=$(rss); fds_after=$(descriptors)
[ $((rss_after - rss_before)) -lt 262144 ] || fail "resident memory grew from $rss_before to $rss_after KiB"
[ $((fds_after - fds_before)) -lt 100 ] || fail "descriptors grew from $fds_before to $fds_after"
echo "resident memory $rss_before -> $rss_after KiB, descriptors $fds_before -> $fds_after"
kill -TERM $daemon; wait $daemon || fail "the daemon did not stop in order"
sqlite3 "$work/r.db" 'PRAGMA integrity_check' | grep -x ok >/dev/null || fail "the database"
echo "OK: 200 samples through the proxy, the daemon survived"
