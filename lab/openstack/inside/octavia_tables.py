"""Makes Octavia's tables from its models: `octavia_tables.py --config-file FILE`.

Its migrations speak MySQL's dialect alone, and this lab's databases are PostgreSQL's.
"""

from __future__ import annotations

import sys

from octavia.common import config, constants  # type: ignore[import-not-found,unused-ignore]
from octavia.db import api, base_models, models  # type: ignore[import-not-found,unused-ignore]
from oslo_config import cfg  # type: ignore[import-not-found,import-untyped,unused-ignore]

# Words that other tables refer to; the migrations fill these in as well.
WORDS = (
    (constants.SUPPORTED_PROVISIONING_STATUSES, models.ProvisioningStatus),
    (constants.SUPPORTED_OPERATING_STATUSES, models.OperatingStatus),
    (constants.SUPPORTED_HEALTH_MONITOR_TYPES, models.HealthMonitorType),
    (constants.SUPPORTED_LB_ALGORITHMS, models.Algorithm),
    (constants.SUPPORTED_LB_TOPOLOGIES, models.LBTopology),
    (constants.SUPPORTED_PROTOCOLS, models.Protocol),
    (constants.SUPPORTED_SP_TYPES, models.SessionPersistenceType),
    (constants.SUPPORTED_CLIENT_AUTH_MODES, models.ClientAuthenticationMode),
)


def main() -> None:
    """Fill an empty database."""
    assert config, "importing it registers the options"
    cfg.CONF(sys.argv[1:], project="octavia")
    base_models.BASE.metadata.create_all(api.get_engine())
    session = api.get_session()
    with session.begin():
        for names, model in WORDS:
            session.add_all(model(name=name) for name in names)


if __name__ == "__main__":
    main()
