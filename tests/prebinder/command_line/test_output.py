"""Every command that prints a document prints it as JSON, YAML and by a template; tables come without headers, too."""

import json
from collections.abc import Iterator

import click
import pytest
import yaml

from prebinder import cli
from prebinder.cli import main_group
from prebinder.command_line.output import Output, write_document, write_list
from tests.prebinder.commands.test_explain import UNKNOWN_CLASS


@pytest.fixture
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("dump") / "dump.yaml"
    file.write_text(UNKNOWN_CLASS)
    return str(file)


def commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inside = command.make_context(name, [], context, resilient_parsing=True)
        if isinstance(command, click.Group):
            yield from commands(command, inside)
        else:
            yield inside.command_path, command


def options(command: click.Command) -> dict[str, click.Option]:
    return {name: param for param in command.params if isinstance(param, click.Option) for name in param.opts}


PRINTING = {
    path: command
    for path, command in commands(main_group, main_group.make_context("pvc-prebinder", [], resilient_parsing=True))
    if "--output" in options(command) and path != "pvc-prebinder dev profile"
}


def test_the_commands_that_print_documents_are_known() -> None:
    """One that is new is added, so that the tests below hold for it."""
    names = "version", "why", "simulate", "health", "doctor", "quarantine list", "reservations list"
    assert set(PRINTING) >= {f"pvc-prebinder {name}" for name in names}


@pytest.mark.parametrize("path", PRINTING)
def test_a_command_that_prints_json_prints_yaml_and_takes_a_template(path: str) -> None:
    command = PRINTING[path]
    convert = options(command)["--output"].type
    for form in ("json", "yaml", "jsonpath={.kind}"):
        assert convert.convert(form, None, None).is_document


@pytest.mark.parametrize("path", PRINTING)
def test_a_command_that_prints_a_table_prints_it_without_headers(path: str) -> None:
    command = PRINTING[path]
    is_table = path.split()[1] not in {"version", "simulate"}
    assert ("--no-headers" in options(command)) is is_table


@pytest.mark.parametrize(
    "arguments",
    [["version"], ["why", "-f", "DUMP"], ["match", "-f", "DUMP"], ["simulate", "--pods", "1", "--nodes", "1"]],
)
def test_yaml_and_json_say_the_same(arguments: list[str], dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [dump if each == "DUMP" else each for each in arguments]
    printed = []
    for form in ("json", "yaml"):
        cli.main([*given, "-o", form])
        printed.append(capsys.readouterr().out)
    as_json = json.loads(printed[0])
    assert as_json
    assert json.loads(json.dumps(yaml.safe_load(printed[1]), default=str)) == as_json


def test_a_template_prints_a_part(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["why", "-f", dump, "-o", 'jsonpath={range .items[*]}{.code}{"\\n"}{end}'])
    assert capsys.readouterr().out.split() == ["StorageClassNotFound"]
    cli.main(["match", "-f", dump, "-o", "jsonpath={.claims[*].claim}"])
    assert capsys.readouterr().out == "web/data"


def test_without_headers_only_rows_are_left(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["why", "-A", "-f", dump, "--no-headers"])
    (row,) = capsys.readouterr().out.splitlines()
    assert row.split()[:3] == ["StorageClassNotFound", "class", "fsat"]


def test_a_wrong_form_names_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["version", "-o", "ymal"])
    assert 'expected text, json, yaml, jsonpath=TEMPLATE, found "ymal"; did you mean "yaml"?' in capsys.readouterr().err
    cli.main(["version", "-o", "jsonpath={range"])
    assert "a brace is not closed" in capsys.readouterr().err


def test_a_list_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    write_list("HealthReport", [{"volume": "a"}, {"volume": "b"}], Output("json"))
    report = json.loads(capsys.readouterr().out)
    assert (report["apiVersion"], report["kind"]) == ("pvc-prebinder/v1alpha1", "HealthReport")
    assert [item["volume"] for item in report["items"]] == ["a", "b"]


def test_one_of_many_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        write_document({"volume": "a"}, Output("json"), one_of_many=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"volume": "a"}] * 2
