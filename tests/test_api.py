import pytest

import relight


@pytest.mark.parametrize("name", relight.NAMES)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(relight, name) is not None
    assert name in dir(relight)


def test_a_name_that_is_not_there_is_reported() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = relight.nothing  # type: ignore[attr-defined]
