"""The audit log: who changed what, and who was refused; in lines of which each is sealed by the next.

    door ──Entry──▶ Audit (a bounded queue) ──▶ a thread of its own ──▶ Chain ──▶ audit/ROLE-*.log

Nothing ever waits for it: where it cannot be written, lines are lost, counted, and told.
"""

from yaffle.api.audit.chain import Chain
from yaffle.api.audit.log import Audit
from yaffle.api.audit.verifying import Verdict, verify

__all__ = ["Audit", "Chain", "Verdict", "verify"]
