//! The eight TPC-H tables: columns, row counts, and what a row weighs.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

/// A TPC-H table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Table {
    Region,
    Nation,
    Part,
    Supplier,
    PartSupp,
    Customer,
    Orders,
    LineItem,
}

/// A column and the bytes of an average value.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) data_type: DataType,
    pub(crate) average_bytes: u64,
}

impl Table {
    pub(crate) const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Part,
        Table::Supplier,
        Table::PartSupp,
        Table::Customer,
        Table::Orders,
        Table::LineItem,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Part => "part",
            Table::Supplier => "supplier",
            Table::PartSupp => "partsupp",
            Table::Customer => "customer",
            Table::Orders => "orders",
            Table::LineItem => "lineitem",
        }
    }

    pub(crate) fn by_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Table::Region => REGION,
            Table::Nation => NATION,
            Table::Part => PART,
            Table::Supplier => SUPPLIER,
            Table::PartSupp => PARTSUPP,
            Table::Customer => CUSTOMER,
            Table::Orders => ORDERS,
            Table::LineItem => LINEITEM,
        }
    }

    /// The fields of all columns, none of which is ever NULL.
    pub(crate) fn schema(self) -> SchemaRef {
        let fields = self.columns().iter().map(|column| Field::new(column.name, column.data_type.clone(), false));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

const fn key(name: &'static str) -> Column {
    Column { name, data_type: DataType::Int64, average_bytes: 8 }
}

const fn int(name: &'static str) -> Column {
    Column { name, data_type: DataType::Int32, average_bytes: 4 }
}

const fn money(name: &'static str) -> Column {
    Column { name, data_type: DataType::Decimal128(15, 2), average_bytes: 16 }
}

const fn date(name: &'static str) -> Column {
    Column { name, data_type: DataType::Date32, average_bytes: 4 }
}

/// `length`: average bytes of the text, without its offset.
const fn text(name: &'static str, length: u64) -> Column {
    Column { name, data_type: DataType::Utf8, average_bytes: length + 4 }
}

const REGION: &[Column] = &[key("r_regionkey"), text("r_name", 7), text("r_comment", 66)];

const NATION: &[Column] = &[key("n_nationkey"), text("n_name", 7), key("n_regionkey"), text("n_comment", 74)];

const PART: &[Column] = &[
    key("p_partkey"),
    text("p_name", 33),
    text("p_mfgr", 14),
    text("p_brand", 8),
    text("p_type", 21),
    int("p_size"),
    text("p_container", 8),
    money("p_retailprice"),
    text("p_comment", 14),
];

const SUPPLIER: &[Column] = &[
    key("s_suppkey"),
    text("s_name", 18),
    text("s_address", 25),
    key("s_nationkey"),
    text("s_phone", 15),
    money("s_acctbal"),
    text("s_comment", 63),
];

const PARTSUPP: &[Column] =
    &[key("ps_partkey"), key("ps_suppkey"), int("ps_availqty"), money("ps_supplycost"), text("ps_comment", 124)];

const CUSTOMER: &[Column] = &[
    key("c_custkey"),
    text("c_name", 18),
    text("c_address", 25),
    key("c_nationkey"),
    text("c_phone", 15),
    money("c_acctbal"),
    text("c_mktsegment", 9),
    text("c_comment", 73),
];

const ORDERS: &[Column] = &[
    key("o_orderkey"),
    key("o_custkey"),
    text("o_orderstatus", 1),
    money("o_totalprice"),
    date("o_orderdate"),
    text("o_orderpriority", 8),
    text("o_clerk", 15),
    int("o_shippriority"),
    text("o_comment", 49),
];

const LINEITEM: &[Column] = &[
    key("l_orderkey"),
    key("l_partkey"),
    key("l_suppkey"),
    int("l_linenumber"),
    money("l_quantity"),
    money("l_extendedprice"),
    money("l_discount"),
    money("l_tax"),
    text("l_returnflag", 1),
    text("l_linestatus", 1),
    date("l_shipdate"),
    date("l_commitdate"),
    date("l_receiptdate"),
    text("l_shipinstruct", 12),
    text("l_shipmode", 4),
    text("l_comment", 27),
];
