#!/bin/sh
# Makes the recordings anew, in /tmp/demo so that no path says whose machine it was. Needs python3, node, cargo with
# nextest, git and the network. The differences between two runs are in times and speeds, and so in how many frames.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
demo=/tmp/demo
rm -rf "$demo"
mkdir -p "$demo/home"
cd "$demo"
record() { # NAME COMMAND...
    name=$1
    shift
    python3 "$here/record.py" "$here/$name.raw" "$@" || true
}
python3 -m venv venv
venv/bin/pip install --quiet tqdm rich pytest
export RUST_BACKTRACE=0
unset PIP_FIND_LINKS PIP_INDEX_URL PIP_EXTRA_INDEX_URL

record pip venv/bin/pip install --no-cache-dir --disable-pip-version-check --target wheels rich numpy

mkdir npm
printf '{"name":"demo","version":"1.0.0","private":true}\n' > npm/package.json
record npm env NPM_CONFIG_USERCONFIG=/dev/null NPM_CONFIG_CACHE=$demo/npm-cache npm install --no-update-notifier --prefix npm express mocha

mkdir -p crates
printf '[workspace]\nresolver = "3"\nmembers = ["crates/*"]\n' > Cargo.toml
dependencies=
for crate in alpha beta gamma delta epsilon zeta eta theta; do
    mkdir -p "crates/$crate/src"
    printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2024"\n\n[dependencies]\n%b' "$crate" "$dependencies" > "crates/$crate/Cargo.toml"
    printf 'pub fn number() -> u32 {\n    42\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn first() {}\n    #[test]\n    fn second() {\n        std::thread::sleep(std::time::Duration::from_millis(150));\n    }\n}\n' > "crates/$crate/src/lib.rs"
    dependencies="$dependencies$crate = { path = \"../$crate\" }\n"
done
printf '\nfn unused() {}\n' >> crates/alpha/src/lib.rs
printf '\n#[test]\nfn fails() {\n    assert_eq!(number(), 43);\n}\n' >> crates/theta/src/lib.rs
record cargo env CARGO_TARGET_DIR=$demo/target cargo build
CARGO_TARGET_DIR=$demo/target cargo test --workspace --no-run --quiet 2> /dev/null
record nextest env CARGO_TARGET_DIR=$demo/target cargo nextest run --workspace --no-fail-fast

git init --quiet origin
(
    cd origin
    for number in $(seq 3000); do printf '%s\n' "$number" > "file-$number"; done
    git add .
    git -c user.name=demo -c user.email=demo@example.com commit --quiet -m 'Many files'
)
record git git clone --progress "file://$demo/origin" copy

printf 'import time\nfrom tqdm import tqdm\nfor part in ("train", "test"):\n    for step in tqdm(range(200), desc=part):\n        time.sleep(0.01)\n        if step == 100:\n            tqdm.write(f"{part}: half way")\n' > bars.py
record tqdm venv/bin/python bars.py

cat > display.py <<'END'
import time
from rich.progress import Progress

with Progress() as progress:
    tasks = [progress.add_task(name, total=100) for name in ("[red]download", "[green]unpack 解凍", "[cyan]install")]
    for step in range(100):
        for speed, task in enumerate(tasks, 1):
            progress.update(task, advance=1 / speed if step < 99 else 100)
        if step == 40:
            progress.console.print("a line [bold]above[/bold] the bars")
        time.sleep(0.02)
END
record rich venv/bin/python display.py

mkdir suite
cat > suite/test_demo.py <<'END'
import pytest


@pytest.mark.parametrize("number", range(40))
def test_is_small(number):
    assert number < 39


@pytest.mark.skip(reason="not today")
def test_is_skipped():
    pass


def test_prints():
    print("said by the test")
    assert {"one": 1, "two": 2} == {"one": 1, "two": 3}
END
cd suite
record pytest ../venv/bin/pytest -v
ls -l "$here"/*.raw
