"""The trial's database: tables, transactions, migrations."""
