"""Our own definitions: exactly the listed fields, and hashes that can never change unnoticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.model import sys_definitions
from tallystick.model.catalogue_build import sys_schemas
from tallystick.model.definitions import definition_hash

GOLDEN = Path(__file__).parent.parent / "golden" / "model" / "sys_hashes.json"

ORIGIN = (
    "origin_workflow origin_workflow_hash origin_instance_key? intent_hash effect effect_hash "
    "executor_module? executor_module_hash? executor_entrypoint? params_hash issuer_ref? "
    "emitted_at_seq "
)
# 02 section 5 and 04 section 6, field by field; `?` marks an option.
FIELDS = {
    "WorkflowContext": "now_ns logical_now_ns journal_height entropy event_hash manifest_hash "
    "workflow workflow_hash? key? cell_mode world event_seq state_version",
    "EffectReceiptEnvelope": ORIGIN + "status receipt_payload settled_at_seq attempt cost_cents?",
    "EffectReceiptRejected": ORIGIN + "status error_code error_message payload_hash payload_size",
    "EffectStreamFrame": ORIGIN + "attempt seq kind payload payload_ref?",
    "EffectError": "kind code message retryable retry_after_ns? details_ref?",
    "EffectDenial": "code stage message rule? path? retry_at_ns?",
    "WorkflowFault": "workflow key? code message input_seq limit? action",
    "WorkflowCompleted": "workflow key? status result? code? message? born_seq ended_seq",
    "CancelRequested": "reason principal deadline_ns?",
    "TimerSetParams": "deliver_at_ns key?",
    "TimerSetReceipt": "delivered_at_ns key?",
    "HttpRequestParams": "method url headers? body? body_ref? redirects?",
    "HttpRequestReceipt": "status url headers body? body_ref? size timings",
    "BlobPutParams": "bytes blob_ref? refs?",
    "BlobPutReceipt": "blob_ref edge_ref size",
    "BlobGetParams": "blob_ref",
    "BlobGetReceipt": "blob_ref size bytes",
    "FileWriteParams": "workspace path content? content_ref? expect? mode? stamp?",
    "FileWriteReceipt": "path pre_id? post_id? size status",
    "FileDeleteParams": "workspace path expect? mode? stamp?",
    "FileDeleteReceipt": "path pre_id? post_id? size status",
    "FileReadParams": "workspace path max?",
    "FileReadReceipt": "path content_id size bytes? ref?",
    "ShellRunParams": "argv cwd? env? stdin_ref? net?",
    "ShellRunReceipt": "exit_code stdout stderr stdout_ref? stderr_ref? truncated timings",
    "PythonRunParams": "code? code_ref? entry? args",
    "PythonRunReceipt": "result stdout stderr timings",
    "SqlQueryParams": "db sql args mode? max_rows?",
    "SqlQueryReceipt": "columns rows rows_ref? row_count truncated",
    "LlmGenerateParams": "provider model messages max_tokens options? api_key?",
    "LlmGenerateReceipt": "text? output_ref finish usage",
    "HumanAskParams": "title body choices? form? to? default? expires_at_ns?",
    "HumanAskReceipt": "choice? answer by comment? at_ns",
    "TelemetryEmitParams": "name value? attrs",
    "TelemetryEmitReceipt": "",
    "WorkflowSpawnParams": "workflow key? payload caps?",
    "WorkflowSpawnReceipt": "workflow key? created",
    "WorkflowCallParams": "workflow key? payload caps?",
    "WorkflowCallReceipt": "status result? code? message?",
    "CellReadParams": "workflow key?",
    "CellReadReceipt": "found state? hash? as_of",
    "EffectCancelParams": "intent? issuer_ref?",
    "EffectCancelReceipt": "cancelled status?",
    "GovernanceProposeParams": "patch bundle_ref? rebase? description?",
    "GovernanceProposeReceipt": "proposal bundle",
    "GovernanceShadowParams": "proposal tail?",
    "GovernanceShadowReceipt": "report_hash complete",
    "GovernanceProveParams": "proposal tail?",
    "GovernanceProveReceipt": "report_hash verdicts",
    "GovernanceApproveParams": "proposal report_hash? comment?",
    "GovernanceApproveReceipt": "decision approvals needed",
    "GovernanceApplyParams": "proposal prove? on?",
    "GovernanceApplyReceipt": "status manifest_hash blockers code?",
}
CAP_FIELDS = {
    "http.out": "hosts schemes ports methods path_prefixes max_body_bytes cidrs",
    "file": "roots ops path_prefixes globs max_bytes",
    "llm": "providers models max_tokens tools",
    "shell": "programs text network env max_seconds",
    "python": "entrypoints network max_seconds",
    "sql": "databases verbs tables",
    "blob": "namespaces max_bytes",
    "timer": "max_horizon_ns",
    "human": "groups max_open_ns",
    "workflow": "workflows worlds",
    "governance": "ops def_kinds name_prefixes sections",
}
CAP_TYPES = {
    "timer.set": "timer", "http.request": "http.out", "blob.put": "blob", "blob.get": "blob",
    "file.write": "file", "file.delete": "file", "file.read": "file", "shell.run": "shell",
    "python.run": "python", "sql.query": "sql", "llm.generate": "llm", "human.ask": "human",
    "telemetry.emit": "effect", "workflow.spawn": "workflow", "workflow.call": "workflow",
    "cell.read": "effect", "effect.cancel": "effect", "playbook.step": "effect",
    "governance.propose": "governance", "governance.shadow": "governance",
    "governance.prove": "governance", "governance.approve": "governance",
    "governance.apply": "governance",
}  # fmt: skip


def record_of(name):
    return sys_definitions.type_of(name)["record"]


def spelled(name):
    return sorted(f + ("?" if "option" in t else "") for f, t in record_of(name).items())


REACTIONS = frozenset(
    [
        "WorkspaceKey",
        "HashKey",
        "TriggerChange",
        "TriggerTarget",
        "TriggerWriter",
        "Actor",
        "TriggerOffered",
        "TriggerOutcome",
        "WorkspaceAdded",
        "ReactionsLoaded",
        "WorkspaceTrust",
        "Observed",
        "ReactionCommand",
        "StampMoved",
        "Output",
        "RunRequested",
        "RunStart",
        "RunControl",
        "LaneControl",
        "RunSettled",
        "Decision",
        "Provenance",
        "FramePut",
        "FrameHeadChanged",
        "CommandAsked",
        "ReactionState",
        "WorkspaceEvent",
        "LaneEvent",
        "RunEvent",
        "ContextEvent",
    ]
)


@pytest.mark.clause("K-15", "K-28")
def test_every_definition_has_its_golden_hash():
    """MO-10: a published `sys/Name@n` never changes; a changed shape is `@n+1`."""
    golden = json.loads(GOLDEN.read_text("utf-8"))
    made = {f"{k} {n}": definition_hash(d) for (k, n), d in sys_definitions.DEFINITIONS.items()}
    assert made == golden


@pytest.mark.clause("K-15", "K-28")
@pytest.mark.parametrize("name", FIELDS)
def test_envelopes_context_and_payloads_hold_exactly_the_listed_fields(name):
    """MO-10: no field more, none less, and options where the design marks them."""
    assert spelled(f"sys/{name}@1") == sorted(FIELDS[name].split())


@pytest.mark.clause("K-15", "K-17")
@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("EffectStatus", "ok error timeout denied rejected cancelled"),
        ("CellStatus", "running waiting completed failed suspended"),
        ("TextOrSecretRef", "literal secret"),
    ],
)
def test_statuses_have_exactly_the_listed_arms(name, tags):
    """MO-10: the closed words of 02 section 5."""
    assert list(sys_definitions.type_of(f"sys/{name}@1")["variant"]) == tags.split()


@pytest.mark.clause("K-28")
def test_entropy_is_64_bytes():
    """MO-10: the context refuses entropy of another length."""
    bounds = record_of("sys/WorkflowContext@1")["entropy"]["where"]
    assert bounds == {"type": {"bytes": {}}, "min_len": 64, "max_len": 64}


@pytest.mark.clause("K-10", "K-14")
def test_the_params_and_payload_vectors_reproduce():
    """MO-05: the params of 02 section 5 and the payload of 01 section 7, byte for byte."""
    params = sys_schemas()["sys/TimerSetParams@1"]
    given = params.admit({"deliver_at_ns": 1000, "key": "o-1"})
    assert given.bytes.hex() == "d9d9f7a2636b6579636f2d316d64656c697665725f61745f6e731903e8"
    receipt = sys_schemas()["sys/TimerSetReceipt@1"]
    given = receipt.admit({"delivered_at_ns": 1000, "key": "o-1"})
    assert given.hash == "sha256:c10e44cae454a7276dfb66adfd2e8a0d2571bb1ae96db4e971a95794aa83cfc5"


def test_every_schema_compiles_and_is_used_or_named():
    """MO-10: no schema of ours is broken, and none is a left-over."""
    assert set(sys_schemas()) == set(sys_definitions.of_kind("defschema"))
    inner = {"EffectStatus", "CellStatus", "TextOrSecretRef", "Usage", "FileStamp"}
    pure = {"MigrateState", "MigratedState", "CapCheck", "CapVerdict", "AsyncState"}
    inner |= {"PlayKey", "PlayRequested", "PlayCtxPatch", "PlaySignal", "PlaybookEvent"}
    inner |= {"PlaybookState", "PlaybookTrace", "PlaybookStepParams", "PlaybookStepReceipt"}
    inner |= REACTIONS
    inner |= {"PlayPublished", "PlayCatalog", "PlayCancel"}
    caps = {d["params"] for d in sys_definitions.of_kind("defcap").values() if "params" in d}
    named = {f"sys/{name}@1" for name in {*FIELDS, *inner, *pure}} | caps
    assert set(sys_schemas()) == named


@pytest.mark.clause("K-04")
def test_the_effects_are_the_catalogue_with_their_cap_types():
    """04 section 6: every effect, its schemas and the type of capability it asks for."""
    effects = sys_definitions.of_kind("defeffect")
    made = {d["impl"]["entrypoint"]: d.get("cap_type", "effect") for d in effects.values()}
    assert made == CAP_TYPES
    for name, defn in effects.items():
        assert name == f"sys/{defn['impl']['entrypoint']}@1"
        assert defn["impl"]["module"] == "sys/builtin_effects@1"
        assert defn["params"] in sys_schemas()
        assert defn["receipt"] in sys_schemas()
        # A deadline from opening would run out while an intent is held for approval.
        assert "timeout_ns" not in defn


@pytest.mark.clause("K-29")
def test_the_capabilities_have_the_fields_of_the_table():
    """06 section 2: all fields optional, each with an order, each checked by a pure enforcer."""
    caps = sys_definitions.of_kind("defcap")
    enforcers = sys_definitions.of_kind("defmodule")["sys/caps@1"]["pure"]
    assert set(caps) == {f"sys/{t}@1" for t in (*CAP_FIELDS, "effect")}
    assert "params" not in caps["sys/effect@1"]
    for cap_type, fields in CAP_FIELDS.items():
        defn = caps[f"sys/{cap_type}@1"]
        assert defn["cap_type"] == cap_type
        assert spelled(defn["params"]) == sorted(f + "?" for f in fields.split())
        assert sorted(defn["order"]) == sorted(fields.split())
        assert defn["enforcer"]["entrypoint"] in enforcers
    assert len(enforcers) == len(CAP_FIELDS)


@pytest.mark.clause("K-29")
def test_an_empty_grant_is_unrestricted_in_every_field():
    """06 section 2: an absent field is null, an empty set stays empty."""
    schema = sys_schemas()["sys/HttpOutCap@1"]
    fields = CAP_FIELDS["http.out"].split()
    assert schema.admit({}, "sugar").value == dict.fromkeys(fields)
    assert schema.admit({"hosts": []}, "sugar").value["hosts"] == []


def test_the_older_kinds_lead_to_our_names():
    """K-32: `timer.set` is `sys/timer.set@1`."""
    assert sys_definitions.effect_kinds()["timer.set"] == "sys/timer.set@1"
    assert set(sys_definitions.effect_kinds()) == set(CAP_TYPES)
