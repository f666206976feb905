"""Drives every tool of `outlive mcp` with the official client, in one era of the protocol.

usage: drive.py OUTLIVE|URL legacy|auto

`auto` asks the server and takes the newest: the stateless one. A server at a URL gets the token in OUTLIVE_TOKEN.

Exits with 0 if every answer is as it should be.
"""

import asyncio
import os
import re
import sys

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client


def text_of(result, is_error=False):
    assert result.is_error == is_error, result
    assert result.structured_content is None, result
    [content] = result.content
    assert content.text.startswith("[outlive] "), content.text
    return content.text


def server(place):
    if not place.startswith("http"):
        return mcp.StdioServerParameters(command=place, args=["mcp"], env=dict(os.environ), cwd=os.getcwd())
    token = {"Authorization": f"Bearer {os.environ['OUTLIVE_TOKEN']}"}
    return streamable_http_client(place, http_client=httpx2.AsyncClient(headers=token, timeout=60))


async def main(place, mode):
    async with mcp.Client(server(place), mode=mode, read_timeout_seconds=60) as client:

        async def call(tool, is_error=False, **arguments):
            return text_of(await client.call_tool(tool, arguments), is_error)

        assert (client.protocol_version == "2026-07-28") == (mode != "legacy"), client.protocol_version
        assert client.server_info.name == "outlive"
        assert "background jobs" in client.instructions

        tools = (await client.list_tools()).tools
        assert len(tools) == 8, tools
        for tool in tools:
            hints = tool.annotations
            assert None not in (
                hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint
            ), tool

        answer = await call("run", command="echo hello; exit 3", name="short")
        assert "failed, exit 3" in answer and "\nhello" in answer, answer
        short = re.match(r"\[outlive\] (\S+)", answer).group(1)

        answer = await call("run", command="while read x; do echo got $x; done", stdin="open", name="long", wait_ms=0)
        assert "running" in answer, answer
        job = re.match(r"\[outlive\] (\S+)", answer).group(1)

        answer = await call("send_input", job=job, text="one")
        assert "got one" in answer, answer
        answer = await call("read_output", job=job)
        assert "nothing new" in answer, answer
        answer = await call("read_output", job=job, lines=1)
        # That it asks for the next line may come with it.
        assert "\ngot one" in answer, answer
        answer = await call("wait", jobs=[job], timeout_ms=100)
        assert "not yet" in answer, answer

        heard = []

        async def progress(done, total, message):
            heard.append(done)

        waited = await client.call_tool(
            "wait", {"jobs": [job], "for": "match", "pattern": "got one"}, progress_callback=progress
        )
        assert "matches" in text_of(waited), waited

        answer = await call("read_screen", is_error=True, job=job)
        assert "read_output" in answer, answer
        answer = await call("manage_job", job=job, action="rename", name="renamed")
        answer = await call("list_jobs", status="live", ports=True, usage=True)
        assert "renamed" in answer and short not in answer, answer

        # Giving up on an answer ends the waiting, and nothing else.
        try:
            await client.call_tool("wait", {"jobs": [job]}, read_timeout_seconds=0.5)
            raise AssertionError("the wait was answered")
        except mcp.MCPError:
            pass
        answer = await call("kill", job="renamed")
        assert "ended" in answer, answer
        answer = await call("read_output", is_error=True, job="nope")
        assert short in answer, answer

        resources = {str(resource.uri) for resource in (await client.list_resources()).resources}
        assert f"outlive://job/{job}/output" in resources, resources
        [contents] = (await client.read_resource(f"outlive://job/{short}/output")).contents
        assert contents.text == "hello\n", contents
        assert len((await client.list_resource_templates()).resource_templates) == 2


asyncio.run(main(*sys.argv[1:]))
print("every answer is right")
