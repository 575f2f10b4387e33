#!/usr/bin/env bash
# Build the CPU image without a Docker engine or a registry, and run a sweep in it as its user.
#
#   sudo tests/support/build_image.sh [WORK_FOLDER]
#
# Needs Debian's buildah and debootstrap. debootstrap creates the base image under the name that the
# Dockerfile uses. Wheels come from PyPI, or from WHEELS=FOLDER if the network does not provide them;
# certificates and the pip configuration are those of this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${1:-$(mktemp -d)}
base=docker.io/library/python:3.11-slim-bookworm
image=tardis-lab:cpu
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot

if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    [[ -d "$work/root" ]] || debootstrap --variant=minbase \
        --include=python3,python3-venv,python3-pip,ca-certificates bookworm "$work/root"
    container=$(buildah from scratch)
    folder=$(buildah mount "$container")
    cp -a "$work/root/." "$folder/"
    rm -rf "$folder"/var/cache/apt/archives/*.deb
    ln -sf python3 "$folder/usr/bin/python"
    buildah umount "$container" >/dev/null
    buildah commit --quiet --rm "$container" "$base" >/dev/null
fi

wheels=${WHEELS:-$work/wheels}
mkdir -p "$wheels"
printf '[global]\nfind-links = %s\ncert = /etc/ssl/certs/ca-certificates.crt\n' "$wheels" >"$work/pip.conf"
started=$SECONDS
buildah bud --format docker --pull-never --network host --layers --target cpu \
    --volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$wheels:$wheels:ro" \
    --volume "$work/pip.conf:/etc/pip.conf:ro" \
    --build-arg TORCH_INDEX="${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" \
    --build-arg COMMIT="$(git rev-parse HEAD)" \
    --file docker/Dockerfile --tag "$image" . >"$work/build.log" 2>&1 ||
    { tail -30 "$work/build.log"; exit 1; }
echo "built in $((SECONDS - started)) s: $(buildah images --format '{{.Size}}' "$image")"

container=$(buildah from --pull-never "$image")
trap 'buildah rm "$container" >/dev/null' EXIT
echo "user: $(buildah run "$container" -- id -un), health: $(buildah inspect --type image \
    --format '{{.Docker.Config.Healthcheck.Test}}' "$image")"
secrets='token|password|secret|aws_|begin .*private key'
if buildah inspect --type image "$image" | grep -iE "\"(env|created_by)\".*($secrets)=[^ ]"; then
    echo "the image seems to contain a secret"
    exit 1
fi
started=$SECONDS
buildah run --network host "$container" -- entrypoint sweep copy --smoke --trials 2 --name in-image
echo "a sweep of 2 trials in the image took $((SECONDS - started)) s"
