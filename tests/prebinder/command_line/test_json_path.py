"""Templates of `-o jsonpath=` mean what they mean to kubectl."""

import pytest

from prebinder.command_line.json_path import parse_template

DOCUMENT = {
    "kind": "List",
    "items": [
        {"name": "a", "code": "Bound", "size": 3, "none": None, "labels": {"example.com/zone": "z1"}, "of": ["x", "y"]},
        {"name": "b\x1b[31m", "code": "Unhealthy", "size": 4, "labels": {}, "of": []},
    ],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "List"),
        (".kind", "List"),
        ("{$.kind}", "List"),
        ("{.items[*].code}", "Bound Unhealthy"),
        ("{.items[0].size} of {.items[1].size}", "3 of 4"),
        ('{.items[?(@.code=="Unhealthy")].size}', "4"),
        ("{.items[?(@.size>3)].code}", "Unhealthy"),
        ('{range .items[*]}{.code}{"\\t"}{.size}{"\\n"}{end}', "Bound\t3\nUnhealthy\t4\n"),
        ("{range .items[*]}{range .of[*]}{@},{end};{end}", "x,y,;;"),
        ("{..code}", "Bound Unhealthy"),
        (r"{.items[0].labels.example\.com/zone}", "z1"),
        ("{.items[0].labels['example.com/zone']}", "z1"),
        ("{.items[-1:].code}", "Unhealthy"),
        ("{.items[0].of}", '["x","y"]'),
        ("{.nothing}", ""),
        ("{.items[0].none}", ""),
        ("{.items[1].name}", "b\\x1b[31m"),
        ("{'a}b'}", "a}b"),
    ],
)
def test_a_template_is_rendered(template: str, text: str) -> None:
    assert parse_template(template).render(DOCUMENT) == text


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{range .items[*]}{.code}", "{range} without {end}"),
        ("{.code}{end}", "{end} without {range}"),
        ("{.items[}", "is not a path such as .items"),
        ("{.kind", "a brace is not closed"),
        ("{.kind | .items}", "is not one path"),
    ],
)
def test_a_wrong_template_is_a_sentence(template: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_template(template)
    assert complaint in str(caught.value)
