"""Lets a real Prometheus read a server of a temporary home, and asks it what the dashboard asks.

Exits with 0 if promtool finds no fault and every query of docs/grafana.json returns data.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

OUTLIVE = os.environ["OUTLIVE_TEST_PROGRAM"]
DASHBOARD = pathlib.Path(__file__).parent.parent.parent / "docs/grafana.json"
LIMIT = 60


def get(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return answer.read()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def queries(dashboard):
    """What the panels ask, with the dashboard's variables as Grafana fills them in when all is chosen."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$session", ".*").replace("$__rate_interval", "1m")


@contextlib.contextmanager
def running(*words, **options):
    process = subprocess.Popen(words, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(LIMIT)


def main():
    home = pathlib.Path(tempfile.mkdtemp(prefix="outlive-metrics-"))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OUTLIVE_HOME": str(home / "store"), "LC_ALL": "C.UTF-8"}

    def outlive(*words):
        return subprocess.run([OUTLIVE, *words], env=env, check=True, capture_output=True, text=True).stdout

    try:
        outlive("run", "--name", "web", "while :; do echo tick; sleep 0.1; done")
        outlive("--session", "shop", "run", "--wait", "echo done")
        outlive("run", "--name", "again", "exit 3")
        with running(OUTLIVE, "--json", "serve", "--tcp", env=env, stdout=subprocess.PIPE, text=True) as server:
            url = json.loads(server.stdout.readline())["url"]
            token = outlive("token", "create", "prometheus", "--scope", "view").strip()
            text = get(f"{url}metrics", token)
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
            said = (checked.stdout + checked.stderr).decode()
            assert checked.returncode == 0 and not said.strip(), f"promtool: {said}"
            print(f"  promtool finds no fault in {len(text.splitlines())} lines")

            (home / "token").write_text(token)
            (home / "prometheus.yml").write_text(
                f"global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: outlive\n"
                f"  authorization: {{credentials_file: {home}/token}}\n"
                f"  static_configs: [{{targets: ['{urllib.parse.urlparse(url).netloc}']}}]\n"
            )
            address = f"127.0.0.1:{free_port()}"
            with running(
                "prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
                f"--web.listen-address={address}", env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            ) as prometheus:
                missing = dict(queries(json.loads(DASHBOARD.read_text())))
                count = len(missing)
                assert count, "the dashboard asks nothing"
                deadline = time.monotonic() + LIMIT
                while missing:
                    assert prometheus.poll() is None, "prometheus has ended"
                    assert time.monotonic() < deadline, f"no data: {missing}"
                    time.sleep(0.5)
                    for title, query in list(missing.items()):
                        asked = f"http://{address}/api/v1/query?" + urllib.parse.urlencode({"query": query})
                        with contextlib.suppress(OSError):
                            if json.loads(get(asked))["data"]["result"]:
                                del missing[title]
                print(f"  {count} queries of the dashboard return data")
    finally:
        subprocess.run([OUTLIVE, "kill", "--all", "--force"], env=env, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


main()
