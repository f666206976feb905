"""Holds a written dialogue with `outlive mcp --profile NAME` through the official client, and compares every answer.

usage: dialogue.py OUTLIVE PROFILE DIALOGUE.json

A dialogue is a JSON object: `tools` (what the server declares: name → description, properties, required, annotations; each part
only where it is given), and `steps`, a list of steps. A tool or a step may name the lines of a design that it `proves`, or shows what there
is `instead`: these are for `tests/coverage/`.

    {"call": TOOL, "arguments": {…}, "error": false, "text": TEMPLATE | "json": TEMPLATE, "messages": [TEMPLATE…], "until": false}

In a template, `<name:kind>` matches what is new and remembers it (in the same text again: the same), `<:kind>` matches without remembering, and `<name>` is what was
remembered; in arguments, too. Everything else is compared as it stands: texts whole, objects field by field, none too many and none
too few. In an object a template that is nothing but a placeholder matches a number if its kind is one of numbers, and a text otherwise. A step with `until` is called again until
it matches, for as long as the patience lasts: for what comes by itself. A step {"run": [PROGRAM, ARGUMENT…], "text": …} runs a
program in place of a tool.

Exits with 0 if everything is as it is written.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import time

import mcp

PATIENCE = 30.0

KINDS = {
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "shell": r"shell-[0-9]{13}-[0-9a-z]{4}",
    "bg": r"bg_[0-9A-Za-z_-]{12}",
    "proc": r"proc-[0-9a-z]+",
    "task": r"task_[0-9a-f]{12}",
    "pid": r"[1-9][0-9]*",
    "int": r"[0-9]+",
    # Since 1970, until 2033.
    "millis": r"1[0-9]{12}",
    "number": r"[0-9]+(?:\.[0-9]+)?",
    "iso": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3})?Z",
    "word": r"\S+",
    "path": r"/[^\n\"]*",
    "line": r"[^\n]*",
    "any": r"(?s:.*)",
}
# In an object these are numbers, and no others are.
NUMBERS = {"pid", "int", "millis", "number"}
PLACEHOLDER = re.compile(r"<([A-Za-z0-9_]*)(?::([a-z]+))?>")


class Mismatch(Exception):
    """Something is not as it is written."""


class Number(str):
    """What was remembered as a number, wherever it stood."""


def is_placeholder(match, known):
    name, kind = match.group(1), match.group(2)
    return (kind in KINDS) if kind else (name in known)


def match_text(template, text, known, where):
    """Compares a text with a template, and remembers what it names."""
    pattern, at, names = "", 0, {}
    for match in PLACEHOLDER.finditer(template):
        if not is_placeholder(match, known):
            continue
        pattern += re.escape(template[at:match.start()])
        name, kind = match.group(1), match.group(2)
        if kind is None or (name and name in known):
            pattern += re.escape(str(known[name]))
        elif name in names:
            pattern += f"(?P={name})"
        elif name:
            pattern += f"(?P<{name}>{KINDS[kind]})"
            names[name] = Number if kind in NUMBERS else str
        else:
            pattern += f"(?:{KINDS[kind]})"
        at = match.end()
    pattern += re.escape(template[at:])
    found = re.fullmatch(pattern, text)
    if not found:
        raise Mismatch(f"{where}:\n--- written\n{template}\n--- answered\n{text}")
    return {name: kind(found.group(name)) for name, kind in names.items()}


def match_value(template, value, known, where):
    """Compares a value with a template, field by field."""
    if isinstance(template, dict):
        if not isinstance(value, dict):
            raise Mismatch(f"{where} is no object: {value!r}")
        if set(template) != set(value):
            raise Mismatch(f"{where} has the fields {sorted(value)}, and should have {sorted(template)}")
        new = {}
        for name, inner in template.items():
            new.update(match_value(inner, value[name], {**known, **new}, f"{where}.{name}"))
        return new
    if isinstance(template, list):
        if not isinstance(value, list) or len(value) != len(template):
            raise Mismatch(f"{where} is {json.dumps(value)}, and should be like {json.dumps(template)}")
        new = {}
        for place, (inner, item) in enumerate(zip(template, value)):
            new.update(match_value(inner, item, {**known, **new}, f"{where}[{place}]"))
        return new
    if isinstance(template, str):
        whole = PLACEHOLDER.fullmatch(template)
        if whole and is_placeholder(whole, known):
            name, kind = whole.group(1), whole.group(2)
            if (kind in NUMBERS) if kind else isinstance(known[name], Number):
                if not isinstance(value, (int, float)) or isinstance(value, bool):
                    raise Mismatch(f"{where} is {json.dumps(value)}, and should be a number")
                return match_text(template, json.dumps(value), known, where)
        if not isinstance(value, str):
            raise Mismatch(f"{where} is {json.dumps(value)}, and should be like {json.dumps(template)}")
        return match_text(template, value, known, where)
    if template != value or isinstance(template, bool) != isinstance(value, bool):
        raise Mismatch(f"{where} is {json.dumps(value)}, and should be {json.dumps(template)}")
    return {}


def filled(value, known):
    """Puts what is known into arguments."""
    if isinstance(value, dict):
        return {name: filled(inner, known) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, known) for inner in value]
    if isinstance(value, str):
        return PLACEHOLDER.sub(lambda match: known.get(match.group(1), match.group(0)), value)
    return value


def compare(step, texts, is_error, known, where):
    if step.get("error", False) != is_error:
        raise Mismatch(f"{where}: is_error is {is_error}: {texts}")
    answer, *messages = texts
    if "json" in step:
        try:
            value = json.loads(answer)
        except ValueError as error:
            raise Mismatch(f"{where} is no JSON: {answer}") from error
        new = match_value(step["json"], value, known, where)
    else:
        new = match_text(step["text"], answer, known, where)
    wanted = step.get("messages", [])
    if len(messages) != len(wanted):
        raise Mismatch(f"{where}: there are {len(messages)} messages beside the answer: {messages}")
    for template, message in zip(wanted, messages):
        new.update(match_text(template, message, {**known, **new}, f"{where}, message"))
    return new


async def act(client, step, known):
    if "run" in step:
        done = subprocess.run(filled(step["run"], known), capture_output=True, text=True, timeout=PATIENCE, check=False)
        return [done.stdout], done.returncode != 0
    result = await client.call_tool(step["call"], filled(step.get("arguments", {}), known))
    return [content.text for content in result.content], bool(result.is_error)


def compare_tools(wanted, tools):
    declared = {tool.name: tool for tool in tools}
    if list(wanted) != list(declared):
        raise Mismatch(f"the tools are {list(declared)}, and should be {list(wanted)}")
    for name, parts in wanted.items():
        tool = declared[name]
        annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True)
        annotations.pop("title", None)
        found = {
            "description": tool.description,
            "properties": tool.input_schema.get("properties", {}),
            "required": tool.input_schema.get("required", []),
            "annotations": annotations,
        }
        for part, template in parts.items():
            if part in ("proves", "instead"):
                continue
            match_value(template, found[part], {}, f"{name}.{part}")


async def main(outlive, profile, path):
    with open(path, encoding="utf-8") as file:
        dialogue = json.load(file)
    arguments = ["mcp", "--profile", profile, *dialogue.get("options", [])]
    parameters = mcp.StdioServerParameters(command=outlive, args=arguments, env=dict(os.environ), cwd=os.getcwd())
    known = {"cwd": os.getcwd(), "home": os.environ["HOME"], "outlive": outlive}
    async with mcp.Client(parameters, mode="auto", read_timeout_seconds=60) as client:
        if "tools" in dialogue:
            compare_tools(dialogue["tools"], (await client.list_tools()).tools)
        for number, step in enumerate(dialogue["steps"], 1):
            where = f"step {number}, {step.get('call') or step['run'][0]} {json.dumps(filled(step.get('arguments', {}), known))}"
            deadline = time.monotonic() + PATIENCE
            while True:
                texts, is_error = await act(client, step, known)
                try:
                    known.update(compare(step, texts, is_error, known, where))
                    break
                except Mismatch:
                    if not step.get("until") or time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.02)
    print(f"{len(dialogue['steps'])} answers are as they are written")


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except* Mismatch as mismatches:
        for mismatch in mismatches.exceptions:
            while isinstance(mismatch, BaseExceptionGroup):
                mismatch = mismatch.exceptions[0]
            print(mismatch, file=sys.stderr)
        sys.exit(1)
