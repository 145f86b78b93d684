"""Which known word a mistyped one stands for."""

from kube.configuration.nearest import did_you_mean, nearest

KNOWN = ("BestFit", "BinPack", "Spread")


def test_the_nearest_word_is_returned_in_its_own_case() -> None:
    assert nearest("bestfti", KNOWN) == "BestFit"
    assert nearest("SPREAD", KNOWN) == "Spread"
    assert nearest("zzz", KNOWN) is None


def test_a_sentence_ends_with_it_or_with_a_full_stop() -> None:
    assert did_you_mean("binpak", KNOWN) == '; did you mean "BinPack"?'
    assert did_you_mean("zzz", KNOWN) == "."
