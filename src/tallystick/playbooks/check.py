"""Static checks of a net: what a playbook probably does not mean (07 section 11).

All but P330 are linear in the net; they look at the normal form and evaluate no variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.playbooks import check_joins, check_names, check_net, check_tasks
from tallystick.playbooks.facts import Facts
from tallystick.playbooks.finding import Remark
from tallystick.playbooks.plan import Plan


def remarks(document: Mapping[str, Any]) -> list[Remark]:
    """Every remark about a net, in the order of its steps."""
    plan = Plan(document)
    facts = Facts(plan)
    found = [
        *check_net.remarks(facts),
        *check_names.remarks(facts),
        *check_tasks.remarks(plan),
        *check_joins.remarks(plan),
    ]
    return sorted(found, key=lambda row: (plan.order[row.step], row.code))
