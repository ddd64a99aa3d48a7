"""Every case, by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.acceptance import (
    at_01,
    at_02,
    at_04,
    at_05,
    at_06,
    at_07,
    at_08,
    at_09,
    at_10,
    at_12,
    at_13,
    at_14,
    at_15,
    at_16,
    at_17,
    at_18,
    at_19,
    at_20,
    at_21,
    at_30,
    at_33,
    at_37,
    at_38,
    at_39,
    nd_06,
    nd_22,
    nd_30,
)
from tests.acceptance.case import Case

_MODULES: Final = (
    at_01,
    at_02,
    at_04,
    at_05,
    at_06,
    at_07,
    at_08,
    at_09,
    at_10,
    at_12,
    at_13,
    at_14,
    at_15,
    at_16,
    at_17,
    at_18,
    at_19,
    at_20,
    at_21,
    at_30,
    at_33,
    at_37,
    at_38,
    at_39,
    nd_06,
    nd_22,
    nd_30,
)
CASES: Final[Mapping[str, Case]] = {module.CASE.number: module.CASE for module in _MODULES}
