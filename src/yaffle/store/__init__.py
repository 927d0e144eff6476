"""Everything that must survive a crash: tables, migrations, units of work, retention (design/engines)."""
