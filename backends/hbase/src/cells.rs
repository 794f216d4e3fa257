//! Short ways to make the structures of calls, and to see what came.
//!
//! The generated structures have many optional fields, and HBase tells an absent field from an
//! empty one: an empty filter is an error, zero versions are none. So these functions leave out all
//! that was not asked for; what else is wanted is a field to set. (`TScan::default()` does not: it
//! sends zeros.)

use crate::table_name::TableName;
use crate::thrift2::{
    TAppend, TColumn, TColumnFamilyDescriptor, TColumnIncrement, TColumnValue, TDelete,
    TDeleteType, TGet, TIncrement, TMutation, TPut, TResult, TRowMutations, TScan,
    TTableDescriptor,
};

/// A column: of a family, or, with a qualifier, one of its columns.
pub fn column(family: &[u8], qualifier: Option<&[u8]>) -> TColumn {
    TColumn {
        family: family.to_vec(),
        qualifier: qualifier.map(<[u8]>::to_vec),
        timestamp: None,
    }
}

/// A cell to write, with the time of the region server.
pub fn column_value(family: &[u8], qualifier: &[u8], value: &[u8]) -> TColumnValue {
    TColumnValue {
        family: family.to_vec(),
        qualifier: qualifier.to_vec(),
        value: value.to_vec(),
        timestamp: None,
        tags: None,
        type_: None,
    }
}

/// A read of the newest version of all cells of a row.
pub fn get(row: &[u8]) -> TGet {
    TGet {
        row: row.to_vec(),
        columns: None,
        timestamp: None,
        time_range: None,
        max_versions: None,
        filter_string: None,
        attributes: None,
        authorizations: None,
        consistency: None,
        target_replica_id: None,
        cache_blocks: None,
        store_limit: None,
        store_offset: None,
        existence_only: None,
        filter_bytes: None,
    }
}

/// A write of cells of a row.
pub fn put(row: &[u8], cells: Vec<TColumnValue>) -> TPut {
    TPut {
        row: row.to_vec(),
        column_values: cells,
        timestamp: None,
        attributes: None,
        durability: None,
        cell_visibility: None,
    }
}

/// A removal of all cells of a row.
pub fn delete_row(row: &[u8]) -> TDelete {
    TDelete {
        row: row.to_vec(),
        columns: None,
        timestamp: None,
        delete_type: None,
        attributes: None,
        durability: None,
    }
}

/// A removal of all versions of some columns of a row, or of whole families.
pub fn delete_columns(row: &[u8], columns: Vec<TColumn>) -> TDelete {
    TDelete {
        columns: Some(columns),
        delete_type: Some(TDeleteType::DELETE_COLUMNS),
        ..delete_row(row)
    }
}

/// Writes and removals of one row that happen all or not at all.
pub fn row_mutations(row: &[u8], puts: Vec<TPut>, deletes: Vec<TDelete>) -> TRowMutations {
    let deletes = deletes.into_iter().map(TMutation::DeleteSingle);
    let puts = puts.into_iter().map(TMutation::Put);
    TRowMutations {
        row: row.to_vec(),
        mutations: deletes.chain(puts).collect(),
    }
}

/// An addition to one counter of a row, whose cell has 8 bytes, big endian.
pub fn increment(row: &[u8], family: &[u8], qualifier: &[u8], amount: i64) -> TIncrement {
    TIncrement {
        row: row.to_vec(),
        columns: vec![TColumnIncrement {
            family: family.to_vec(),
            qualifier: qualifier.to_vec(),
            amount: Some(amount),
        }],
        attributes: None,
        durability: None,
        cell_visibility: None,
        return_results: None,
    }
}

/// An addition at the end of values of a row.
pub fn append(row: &[u8], cells: Vec<TColumnValue>) -> TAppend {
    TAppend {
        row: row.to_vec(),
        columns: cells,
        attributes: None,
        durability: None,
        cell_visibility: None,
        return_results: None,
    }
}

/// A scan of the newest version of all cells, from `start` on and up to `stop`, which is left out.
/// None is the table's beginning or end.
pub fn scan(start: Option<&[u8]>, stop: Option<&[u8]>) -> TScan {
    TScan {
        start_row: start.map(<[u8]>::to_vec),
        stop_row: stop.map(<[u8]>::to_vec),
        columns: None,
        caching: None,
        max_versions: None,
        time_range: None,
        filter_string: None,
        batch_size: None,
        attributes: None,
        authorizations: None,
        reversed: None,
        cache_blocks: None,
        col_fam_time_range_map: None,
        read_type: None,
        limit: None,
        consistency: None,
        target_replica_id: None,
        filter_bytes: None,
    }
}

/// A column family with HBase's defaults.
pub fn column_family(name: &[u8]) -> TColumnFamilyDescriptor {
    TColumnFamilyDescriptor {
        name: name.to_vec(),
        attributes: None,
        configuration: None,
        block_size: None,
        bloomn_filter_type: None,
        compression_type: None,
        dfs_replication: None,
        data_block_encoding: None,
        keep_deleted_cells: None,
        max_versions: None,
        min_versions: None,
        scope: None,
        time_to_live: None,
        block_cache_enabled: None,
        cache_blooms_on_write: None,
        cache_data_on_write: None,
        cache_indexes_on_write: None,
        compress_tags: None,
        evict_blocks_on_close: None,
        in_memory: None,
    }
}

/// A table with these column families, and HBase's defaults.
pub fn table(name: &TableName, families: Vec<TColumnFamilyDescriptor>) -> TTableDescriptor {
    TTableDescriptor {
        table_name: name.to_thrift(),
        columns: Some(families),
        attributes: None,
        durability: None,
    }
}

/// The bytes of all values of a row.
pub fn value_bytes(row: &TResult) -> usize {
    row.column_values.iter().map(|cell| cell.value.len()).sum()
}
