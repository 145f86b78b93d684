"""What is put into a module: one defect each, on the lines that it had before, and still Python."""

import ast

from bench.mutants.mutations import is_python, mutations

SOURCE = '''
async def write(volume, lock, ready):
    """Never a docstring."""
    await ready()
    logger.info("not what is logged", "first" if lock else (1, 2))
    if lock > 3:
        logger.info("nor when")
    kept = dict[str, tuple[int, str]]()
    async with lock:
        if volume.phase == "Bound" and not volume.deleting:
            raise ValueError(
                "é"
            )
    if volume.uid is None:
        return None
    volume.seen = [each for each in volume.users if each > 3]
    return volume, lock
'''


def test_each_defect_leaves_every_line_where_it_was() -> None:
    made = [(each.what, each.apply(SOURCE)) for each in mutations("m.py", SOURCE)]
    assert all(is_python(source) and source.count("\n") == SOURCE.count("\n") for _, source in made)
    assert len({ast.dump(ast.parse(source)) for _, source in made}) == len(made), "each is another"
    assert ast.dump(ast.parse(SOURCE)) not in {ast.dump(ast.parse(source)) for _, source in made}


def test_a_removed_write_check_lock_and_element_are_among_them() -> None:
    described = {each.what for each in mutations("m.py", SOURCE)}
    assert described == {
        "left out: await ready()",
        "expression not entered: lock",
        'expression swapped: volume.phase == "Bound" -> !=',
        'expression negated: volume.phase == "Bound" and not volume.deleting',
        "expression without the operand not volume.deleting",
        'expression without the operand volume.phase == "Bound"',
        'left out: raise ValueError( "é" )',
        "left out: volume.seen = [each for each in volume.users if each > 3]",
        "expression swapped: volume.uid is None -> is not",
        "expression negated: each > 3",
        "expression swapped: each > 3 -> >=",
        "expression without the element lock",
        "expression without the element volume",
    }


def test_the_function_around_a_defect_is_known_by_its_first_line() -> None:
    assert {each.function for each in mutations("m.py", SOURCE)} == {2}
    decorated = "@cache\ndef f(x):\n    return x < 1\n"
    assert [each.function for each in mutations("m.py", decorated)] == [1]
