"""A broker without quotas measures nothing, and changed quotas apply at once."""

import subprocess
import sys

from headrace.broker.quotas.client_quotas import ClientQuotas
from headrace.broker.quotas.exemption import BrokerExemption
from headrace.security.quotas.client_quota import IP, USER, QuotaEntity
from headrace.security.quotas.quota_windows import QuotaWindows

ALICE = {QuotaEntity(((USER, "alice"),)): {"request_percentage": 1.0}}
ADDRESS = {QuotaEntity(((IP, "10.0.0.1"),)): {"connection_creation_rate": 1.0}}


class NoExemption(BrokerExemption):
    def __init__(self) -> None: ...


def no_quotas() -> ClientQuotas:
    return ClientQuotas(QuotaWindows(), QuotaWindows(), lambda: 0.0, NoExemption())


def test_quotas_are_active_while_a_user_or_client_has_one() -> None:
    quotas = no_quotas()
    assert not quotas.update({})
    assert not quotas.is_active
    assert quotas.update(ALICE)
    assert (quotas.is_active, quotas.limits_request_time) == (True, True)
    assert not quotas.update(ALICE)  # the same table: nothing is done
    assert quotas.update(ADDRESS)
    assert (quotas.is_active, quotas.limits_request_time) == (False, False)
    assert quotas.connection_throttle_s("10.0.0.2") == 0.0


def test_a_broker_without_quotas_does_not_import_what_measures_them() -> None:
    code = (
        "import sys, headrace.broker.node; "
        "print([name for name in sys.modules if 'quota_manager' in name or 'rate_meter' in name])"
    )
    shown = subprocess.run(  # this interpreter and fixed code
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
