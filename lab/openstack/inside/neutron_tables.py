"""Makes Neutron's tables from its models: `neutron_tables.py --config-file FILE`.

One of its migrations speaks MySQL alone, and this lab's databases are PostgreSQL's.
"""

from __future__ import annotations

import sys

from neutron.common import config  # type: ignore[import-not-found,unused-ignore]
from neutron.db.migration.models import head  # type: ignore[import-not-found,unused-ignore]
from neutron_lib.db import api  # type: ignore[import-not-found,unused-ignore]


def main() -> None:
    """Fill an empty database."""
    config.register_common_config_options()
    config.init(sys.argv[1:])
    with api.CONTEXT_WRITER.get_engine().begin() as connection:
        head.get_metadata().create_all(connection)


if __name__ == "__main__":
    main()
