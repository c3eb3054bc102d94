#!/bin/sh
# make_aarch64.sh FOLDER: Debian's Python for aarch64 with what weft needs, in FOLDER/root and FOLDER/site,
# and FOLDER/python, which runs it by qemu-user. Nothing is installed into this machine: apt-get's state
# is in FOLDER too.
set -eu
folder=$(realpath -m "$1")
apt=$folder/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$folder/root"
touch "$apt/status"
get() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$apt/lists" \
        -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o Debug::NoLocking=1 "$@"
}
get update
get install -y --no-install-recommends --download-only libpython3.11-dev python3.11-minimal libstdc++6 > /dev/null
for package in "$apt"/cache/archives/*.deb; do dpkg -x "$package" "$folder/root"; done

cat > "$folder/python" <<PROGRAM
#!/bin/sh
PYTHONPATH=\${PYTHONPATH:+\$PYTHONPATH:}$folder/site PYTHONDONTWRITEBYTECODE=1 \\
  exec qemu-aarch64 -L "$folder/root" "$folder/root/usr/bin/python3.11" "\$@"
PROGRAM
chmod +x "$folder/python"

needs=$(python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"])')
# shellcheck disable=SC2086
python3 -m pip install --quiet --disable-pip-version-check --python-version 3.11 --only-binary :all: \
    --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux_2_27_aarch64 \
    --platform manylinux_2_28_aarch64 --upgrade --target "$folder/site" $needs pytest hypothesis
