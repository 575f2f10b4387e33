#!/usr/bin/env bash
# Start the role of a container: `head`, `worker`, `mlflow`, `buckets NAMES`, `sweep ARGUMENTS`, or
# any other command.
set -euo pipefail

# NAME_FILE is a file with the secret NAME, which is thus in no image, compose file or command line.
for name in MLFLOW_AUTH_ADMIN_PASSWORD MLFLOW_FLASK_SERVER_SECRET_KEY MLFLOW_TRACKING_PASSWORD PGPASSWORD; do
    file="${name}_FILE"
    if [[ -n "${!file:-}" ]]; then
        export "$name=$(<"${!file}")"
    fi
done

role_file=${HOME:-/tmp}/.role
head_address=${RAY_HEAD_ADDRESS:-head:6379}
memory=(--object-store-memory "${RAY_OBJECT_STORE_BYTES:-1000000000}")

case "${1:-}" in
    head)
        echo head >"$role_file"
        # No CPUs, so that no trial competes with the state of the cluster. The dashboard requires
        # the token, and Docker publishes its port on 127.0.0.1 only.
        exec ray start --head --block --port "${head_address##*:}" --num-cpus 0 "${memory[@]}" \
            --dashboard-host "${RAY_DASHBOARD_HOST:-127.0.0.1}" --disable-usage-stats
        ;;
    worker)
        echo worker >"$role_file"
        # It exits when it has lost the head for some time; the restart policy restarts it.
        exec ray start --block --address "$head_address" "${memory[@]}" --disable-usage-stats \
            ${RAY_WORKER_CPUS:+--num-cpus "$RAY_WORKER_CPUS"} \
            ${RAY_WORKER_GPUS:+--num-gpus "$RAY_WORKER_GPUS"}
        ;;
    mlflow)
        echo mlflow >"$role_file"
        exec mlflow server --app-name basic-auth --host 0.0.0.0 --port 5000 --workers 2 \
            --allowed-hosts "${MLFLOW_ALLOWED_HOSTS:-mlflow:5000,localhost:5000,127.0.0.1:5000}" \
            --backend-store-uri "${MLFLOW_STORE:-postgresql://mlflow@postgres/mlflow}" \
            --artifacts-destination "${MLFLOW_ARTIFACTS:-s3://mlflow}"
        ;;
    buckets)
        shift
        exec python - "$@" <<'END'
import sys
import boto3

s3 = boto3.client("s3")
present = {each["Name"] for each in s3.list_buckets()["Buckets"]}
for name in set(sys.argv[1:]) - present:
    s3.create_bucket(Bucket=name)
END
        ;;
    sweep)
        shift
        echo sweep >"$role_file"
        # The driver must run on a node of the cluster; this one takes no trials.
        if [[ -n "${RAY_HEAD_ADDRESS:-}" && " $* " != *" --help "* && " $* " != *" --dry-run "* ]]; then
            ray start --address "$head_address" --num-cpus 0 --num-gpus 0 "${memory[@]}" \
                --disable-usage-stats >/dev/null
            export RAY_ADDRESS=$head_address
        fi
        exec python -m orchestrator.sweep "$@"
        ;;
    healthy)
        case "$(cat "$role_file" 2>/dev/null)" in
            head) exec ray health-check --address "127.0.0.1:${head_address##*:}" ;;
            worker) pgrep -x raylet >/dev/null && exec ray health-check --address "$head_address" ;;
            mlflow)
                exec python -c "import urllib.request as u; u.urlopen('http://127.0.0.1:5000/health', timeout=5)"
                ;;
            *) exit 0 ;;
        esac
        ;;
    *) exec "$@" ;;
esac
