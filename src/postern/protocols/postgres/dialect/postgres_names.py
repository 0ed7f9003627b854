"""Resolution of names of functions, operators, types and tables: PostgreSQL's own, or the target's, by its catalogue.

PostgreSQL's own functions, from 15 to 18, are known by their effects. `postgres_system_catalogue.CALM` lists those that
the server declares stable or immutable. Reviewed volatile ones are listed here. All others are unknown. A test compares
both lists with the `pg_proc` of real servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from postern.domain.rules.statement import Effect
from postern.domain.targets.target_schema import Relation, TargetSchema, find_reachable
from postern.protocols.postgres.dialect.postgres_system_catalogue import CALM, OPERATORS, RELATIONS, TYPES

# Volatile only because their results change; they have no side effects.
_READ: Final = """
amvalidate array_sample array_shuffle clock_timestamp current_query currtid2 currval gen_random_uuid lastval lo_get
pg_blocking_pids pg_collation_actual_version pg_control_checkpoint pg_control_init pg_control_recovery
pg_control_system pg_current_logfile pg_current_wal_flush_lsn pg_current_wal_insert_lsn pg_current_wal_lsn
pg_database_collation_actual_version pg_database_size pg_get_backend_memory_contexts pg_get_multixact_members
pg_get_shmem_allocations pg_get_wal_replay_pause_state pg_get_wal_resource_managers pg_indexes_size pg_is_in_recovery
pg_is_wal_replay_paused pg_isolation_test_session_is_blocked pg_jit_available pg_last_committed_xact
pg_last_wal_receive_lsn pg_last_wal_replay_lsn pg_last_xact_replay_timestamp pg_lock_status
pg_notification_queue_usage pg_partition_ancestors pg_partition_tree pg_prepared_xact pg_relation_size
pg_replication_origin_progress pg_replication_origin_session_is_setup pg_replication_origin_session_progress
pg_safe_snapshot_blocking_pids pg_sequence_last_value pg_show_replication_origin_status pg_sleep pg_sleep_for
pg_sleep_until pg_stat_get_io pg_stat_get_recovery_prefetch pg_stat_get_xact_blocks_fetched
pg_stat_get_xact_blocks_hit pg_stat_get_xact_function_calls pg_stat_get_xact_function_self_time
pg_stat_get_xact_function_total_time pg_stat_get_xact_numscans pg_stat_get_xact_tuples_deleted
pg_stat_get_xact_tuples_fetched pg_stat_get_xact_tuples_hot_updated pg_stat_get_xact_tuples_inserted
pg_stat_get_xact_tuples_newpage_updated pg_stat_get_xact_tuples_returned pg_stat_get_xact_tuples_updated
pg_stat_have_stats pg_table_size pg_tablespace_size pg_total_relation_size pg_xact_commit_timestamp
pg_xact_commit_timestamp_origin pg_xact_status pg_available_wal_summaries pg_get_aios pg_get_loaded_modules
pg_get_sequence_data pg_get_shmem_allocations_numa pg_get_wait_events pg_get_wal_summarizer_state
pg_stat_get_backend_io pg_stat_get_backend_wal pg_wal_summary_contents random random_normal timeofday txid_status
uuidv4 uuidv7
"""
# Locks, notifications, and state that only this session sees.
_SESSION: Final = """
lo_close lo_lseek lo_lseek64 lo_tell lo_tell64
pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock pg_advisory_unlock_all pg_advisory_unlock_shared
pg_advisory_xact_lock pg_advisory_xact_lock_shared pg_export_snapshot pg_notify pg_stat_clear_snapshot
pg_stat_force_next_flush pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock
pg_try_advisory_xact_lock_shared setseed
"""
# lo_open may open for writing, and loread reads only what it opened.
_WRITE: Final = """
brin_desummarize_range brin_summarize_new_values brin_summarize_range gin_clean_pending_list lo_creat lo_create
lo_from_bytea lo_open lo_put lo_truncate lo_truncate64 lo_unlink loread lowrite nextval setval
pg_clear_attribute_stats pg_clear_relation_stats pg_restore_attribute_stats pg_restore_relation_stats
"""
_ADMIN: Final = """
binary_upgrade_add_sub_rel_state binary_upgrade_create_empty_extension binary_upgrade_logical_slot_has_caught_up
binary_upgrade_replorigin_advance
binary_upgrade_set_missing_value binary_upgrade_set_next_array_pg_type_oid binary_upgrade_set_next_heap_pg_class_oid
binary_upgrade_set_next_heap_relfilenode binary_upgrade_set_next_index_pg_class_oid
binary_upgrade_set_next_index_relfilenode binary_upgrade_set_next_multirange_array_pg_type_oid
binary_upgrade_set_next_multirange_pg_type_oid binary_upgrade_set_next_pg_authid_oid
binary_upgrade_set_next_pg_enum_oid binary_upgrade_set_next_pg_tablespace_oid binary_upgrade_set_next_pg_type_oid
binary_upgrade_set_next_toast_pg_class_oid binary_upgrade_set_next_toast_relfilenode
binary_upgrade_set_record_init_privs lo_export lo_import pg_backup_start pg_backup_stop pg_cancel_backend pg_config
pg_copy_logical_replication_slot pg_copy_physical_replication_slot pg_create_logical_replication_slot
pg_create_physical_replication_slot pg_create_restore_point pg_drop_replication_slot pg_extension_config_dump
pg_hba_file_rules pg_ident_file_mappings pg_import_system_collations pg_log_backend_memory_contexts
pg_log_standby_snapshot pg_logical_emit_message pg_logical_slot_get_binary_changes pg_logical_slot_get_changes
pg_logical_slot_peek_binary_changes pg_logical_slot_peek_changes pg_ls_archive_statusdir pg_ls_dir pg_ls_logdir
pg_ls_logicalmapdir pg_ls_logicalsnapdir pg_ls_replslotdir pg_ls_summariesdir pg_ls_tmpdir pg_ls_waldir pg_nextoid
pg_promote pg_read_binary_file pg_read_file pg_read_file_old pg_reload_conf pg_replication_origin_advance
pg_replication_origin_create pg_replication_origin_drop pg_replication_origin_session_reset
pg_replication_origin_session_setup pg_replication_origin_xact_reset pg_replication_origin_xact_setup
pg_replication_slot_advance pg_rotate_logfile pg_rotate_logfile_old pg_show_all_file_settings pg_stat_file
pg_stat_reset pg_stat_reset_backend_stats pg_stat_reset_replication_slot pg_stat_reset_shared
pg_stat_reset_single_function_counters pg_stat_reset_single_table_counters pg_stat_reset_slru
pg_stat_reset_subscription_stats pg_stop_making_pinned_objects pg_switch_wal pg_sync_replication_slots
pg_terminate_backend pg_wal_replay_pause pg_wal_replay_resume
"""
# They run a text, a name or a cursor from their arguments.
_UNKNOWN: Final = """
cursor_to_xml cursor_to_xmlschema plpgsql_call_handler plpgsql_inline_handler plpgsql_validator
query_to_xml query_to_xml_and_xmlschema query_to_xmlschema ts_rewrite ts_stat
"""

VOLATILE: Final[dict[str, frozenset[Effect]]] = {
    name: frozenset({effect})
    for effect, listed in (
        (Effect.READ, _READ),
        (Effect.SESSION, _SESSION),
        (Effect.WRITE, _WRITE),
        (Effect.ADMIN, _ADMIN),
        (Effect.UNKNOWN, _UNKNOWN),
        (Effect.SESSION, "set_config"),  # depends on the setting, where it is a constant: see `postgres_settings`
    )
    for name in listed.split()
}
"""The effects of calling each volatile function of `pg_catalog`."""

_CALM_BUT: Final = """
database_to_xml database_to_xml_and_xmlschema database_to_xmlschema schema_to_xml schema_to_xml_and_xmlschema
schema_to_xmlschema table_to_xml table_to_xml_and_xmlschema table_to_xmlschema
anyarray_in array_in domain_in multirange_in pg_input_error_info pg_input_is_valid range_in record_in
"""
DECLARED_CALM_BUT: Final = frozenset(_CALM_BUT.split())
"""Declared stable or immutable, but they read tables or views that the text does not name as such, or create a value
of a type that is given by its number or name, which runs the checks of a domain."""


OWN: Final = "pg_catalog"
_CALM_EFFECTS: Final[frozenset[Effect]] = frozenset({Effect.READ})
# Functions that drivers call there; only the server's owner could replace them.
_INFORMATION: Final = frozenset({"_pg_char_max_length", "_pg_expandarray", "_pg_truetypid", "_pg_truetypmod"})
_DOMAINS: Final = ("cardinal_number", "character_data", "sql_identifier", "time_stamp", "yes_or_no")
_OWN_TYPES: Final = {("information_schema", name) for name in _DOMAINS} | {(OWN, name) for name in TYPES}
_SYSTEM_SCHEMAS: Final = frozenset({OWN, "information_schema", "pg_toast"})


class TargetNames:
    """The names of one target. Without a `schema` its relations count as tables, and everything else is unknown.

    A name without a schema is looked up in every schema, because a session can change its search_path. It is harmless
    if it is harmless in each of them.
    """

    def __init__(self, schema: TargetSchema | None) -> None:
        self.schema = schema or TargetSchema()
        path = self.schema.search_path
        # Where pg_catalog is not searched first, any of its names may be the target's.
        self._shadowed = OWN in path and path[0] != OWN
        self._functions = {key: function.harmless for key, function in self.schema.functions.items()}
        # Without the catalogue, no schema is known to be the only one with such a function.
        functions = self._functions if self.schema.relations else {k: v for k, v in self._functions.items() if not k[0]}
        self._functions_anywhere = _anywhere(functions)
        self._types_anywhere = _anywhere(self.schema.types)
        self._operators_anywhere = _anywhere(self.schema.operators)
        self._relations_anywhere: dict[str, list[Relation]] = {}
        self._heirs: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for key, relation in self.schema.relations.items():
            self._relations_anywhere.setdefault(relation.name, []).append(relation)
            for parent in relation.parents:
                self._heirs.setdefault(parent, []).append(key)

    def function(self, parts: list[str]) -> frozenset[Effect] | None:
        """Return the effects of calling a function, or None if they are unknown. `parts`: the name, with or without its
        schema."""
        name = parts[-1]
        effects = VOLATILE.get(name) or (_CALM_EFFECTS if name in CALM or name in TYPES else None)  # or a cast
        if len(parts) > 1 and parts[-2] == OWN:
            return effects
        if len(parts) > 1 and parts[-2] == "information_schema" and name in _INFORMATION:
            return _CALM_EFFECTS
        if len(parts) > 1:
            return _CALM_EFFECTS if self._functions.get((parts[-2], name)) else None
        # An overload on the target may match the arguments better than PostgreSQL's own function.
        harmless = self._functions.get(("", name), self._functions_anywhere.get(name))
        if harmless is None:
            return None if self._shadowed else effects
        return (effects or _CALM_EFFECTS) if harmless else None

    def may_call(self, column: str) -> bool:
        """Return True if `row.column` or `(value).column` may be a call, `column(value)`, of a function that does more
        than read (PostgreSQL's documentation, 4.2.6 and 8.16.5)."""
        is_harmful = self._functions_anywhere.get(column) is False and not self._functions.get(("", column))
        return is_harmful or bool(VOLATILE.get(column, _CALM_EFFECTS) - _CALM_EFFECTS)

    def may_cast(self, column: str) -> bool:
        """Return True if `(value).column` may be a cast to one of the target's types that runs custom code."""
        return self._types_anywhere.get(column) is False

    def operator_known(self, parts: list[str]) -> bool:
        return self._is_known_harmless(parts, OPERATORS, self.schema.operators, self._operators_anywhere)

    def type_known(self, parts: list[str]) -> bool:
        """Return True if a cast to the type does not run custom code of the target."""
        if len(parts) == 1 and parts[0].removeprefix("_") in TYPES and not self._shadowed:
            return True  # types have no overloads; _int4 is an array
        if len(parts) > 1 and (parts[-2], parts[-1].removeprefix("_")) in _OWN_TYPES:
            return True
        return self._is_known_harmless(parts, TYPES, self.schema.types, self._types_anywhere)

    def _is_known_harmless(
        self,
        parts: list[str],
        system: frozenset[str],
        targets: Mapping[tuple[str, str], bool],
        anywhere: Mapping[str, bool],
    ) -> bool:
        name = parts[-1]
        if len(parts) > 1:
            return name in system if parts[-2] == OWN else targets.get((parts[-2], name), False)
        return anywhere.get(name, name in system and not self._shadowed)

    def relations(self, parts: list[str]) -> list[Relation]:
        """Return the tables and views that the name may mean; none if the catalogue has none, or is missing."""
        if len(parts) == 1:
            return self._relations_anywhere.get(parts[0], [])
        relation = self.schema.relations.get((parts[-2], parts[-1]))
        return [relation] if relation else []

    def family(self, relation: Relation) -> set[tuple[str, str]]:
        """Return the tables that share rows with the relation: partitions and inheritance children, and their
        parents."""
        own_key = (relation.schema, relation.name)
        if not relation.parents and own_key not in self._heirs:
            return set()
        below = find_reachable([own_key], lambda key: self._heirs.get(key, ()))
        return (below | find_reachable([own_key], self._parents)) - {own_key}

    def _parents(self, key: tuple[str, str]) -> Sequence[tuple[str, str]]:
        relation = self.schema.relations.get(key)
        return () if relation is None else relation.parents

    @property
    def has_catalogue(self) -> bool:
        """Return True if tables and views are known at all."""
        return bool(self.schema.relations)

    def relation_known(self, parts: list[str]) -> bool:
        """Return True if reading the relation runs nothing but what `relations` reports."""
        return not self.schema.relations or is_of_system(parts) or bool(self.relations(parts))


def _anywhere(harmless: Mapping[tuple[str, str], bool]) -> dict[str, bool]:
    """Index by name alone: harmless if it is harmless in every schema that has it."""
    harmless_by_name: dict[str, bool] = {}
    for (_, name), is_harmless in harmless.items():
        harmless_by_name[name] = is_harmless and harmless_by_name.get(name, True)
    return harmless_by_name


def is_of_system(parts: list[str]) -> bool:
    """Return True for one of PostgreSQL's own tables and views."""
    if len(parts) > 1:
        return parts[-2] in _SYSTEM_SCHEMAS
    return parts[0] in RELATIONS
