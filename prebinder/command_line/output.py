"""The forms in which commands print: a table or a text for people, JSON, YAML or parts of it for programs."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click
import cloup
from click.shell_completion import CompletionItem

from kube.configuration.nearest import did_you_mean
from kube.plain_text import printable
from prebinder.command_line.parameters import Completing

if TYPE_CHECKING:
    from prebinder.command_line.json_path import JsonPathTemplate

API_VERSION: Final = "pvc-prebinder/v1alpha1"
_JSONPATH: Final = "jsonpath="
_DOCUMENTS: Final = ("json", "yaml", _JSONPATH)


@dataclass(frozen=True, slots=True)
class Output:
    """What `-o` and `--no-headers` say: the name of a form, and for `jsonpath` its template."""

    form: str = "table"
    template: "JsonPathTemplate | None" = None
    headers: bool = True

    @property
    def is_document(self) -> bool:
        """Whether a program reads it."""
        return self.template is not None or self.form in _DOCUMENTS


def output_flags(
    *forms: str, names: tuple[str, ...] = ("-o", "--output"), tables: bool = True
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add `-o` with these forms, of which the first is the default, and the documents; and `--no-headers` if some are
    tables. The command receives them as `output`.
    """
    known = (*forms, *_DOCUMENTS)
    listed = ", ".join((f"{forms[0]} (default)", *forms[1:], "json, yaml or jsonpath=TEMPLATE"))

    def read(text: str) -> Output:
        if text.startswith(_JSONPATH):
            from prebinder.command_line.json_path import parse_template  # noqa: PLC0415 - loaded only where it is used

            return Output("jsonpath", parse_template(text.removeprefix(_JSONPATH)))
        if text == "jsonpath" or text not in known:
            meant = did_you_mean(text, forms + _DOCUMENTS[:2]).rstrip(".")
            raise ValueError(f'expected {", ".join(known)}TEMPLATE, found "{text}"{meant}')
        return Output(text)

    def complete(_: click.Context, beginning: str) -> list[CompletionItem]:
        return [CompletionItem(form) for form in known if form.startswith(beginning)]

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @wraps(function)
        def with_output(output: Output, no_headers: bool = False, **others: Any) -> int:
            return function(output=Output(output.form, output.template, headers=not no_headers), **others)

        kind, default = Completing("form", read, complete), forms[0]
        flag = cloup.option(*names, "output", type=kind, default=default, metavar="FORM", help=listed)
        if tables:
            with_headers = cloup.option("--no-headers", is_flag=True, help="print tables without their first line")
            return flag(with_headers(with_output))
        return flag(with_output)

    return decorate


def write_document(document: Any, output: Output, *, one_of_many: bool = False) -> None:
    """Write a document to the standard output; `one_of_many` on one line of JSON, or after a separator of YAML."""
    import msgspec  # noqa: PLC0415 - the help does without it
    import yaml  # noqa: PLC0415 - as above

    from why.rendering.lines import json_of, write_json  # noqa: PLC0415 - as above

    if output.template is not None:
        text = output.template.render(msgspec.json.decode(json_of(document)))
        sys.stdout.write(f"{text}\n" if one_of_many else text)
    elif output.form == "yaml":
        # Through JSON, so that both forms have the same types and nothing that acts on a terminal.
        plain = msgspec.json.decode(json_of(document))
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False, explicit_start=one_of_many)
        sys.stdout.write("".join(f"{printable(line)}\n" for line in text.splitlines()))
    else:
        write_json(document, pretty=not one_of_many)


def write_list(kind: str, items: list[Any], output: Output) -> None:
    """Write one document with these items, as `why` does."""
    write_document({"apiVersion": API_VERSION, "kind": kind, "items": items}, output)
