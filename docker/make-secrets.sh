#!/usr/bin/env bash
# Create the secrets of compose.yaml that do not exist yet: docker/make-secrets.sh [FOLDER]
set -euo pipefail
folder=${1:-$(dirname "$0")/secrets}

# Compose mounts each file unchanged into the containers that need it, whose users differ from
# yours. So the files are readable by everyone, but the folder only by you.
umask 077
mkdir -p "$folder"
chmod 700 "$folder"

random() { head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }

write() { # NAME TEXT: unless the file exists
    if [[ ! -e "$folder/$1" ]]; then
        printf '%s' "$2" >"$folder/$1"
        chmod 444 "$folder/$1"
    fi
}

for name in ray_token postgres_password mlflow_password mlflow_secret_key; do
    write "$name" "$(random)"
done
if [[ ! -e "$folder/s3_credentials" || ! -e "$folder/s3_identities" ]]; then
    rm -f "$folder/s3_credentials" "$folder/s3_identities"
    secret=$(random)
    write s3_credentials "[default]
aws_access_key_id = tardis
aws_secret_access_key = $secret
"
    write s3_identities '{"identities": [{"name": "tardis", "actions": ["Admin"], "credentials":
    [{"accessKey": "tardis", "secretKey": "'"$secret"'"}]}]}'
fi
echo "The secrets are in $folder; the password of MLflow's user admin is in mlflow_password."
