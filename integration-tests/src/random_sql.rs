//! Makes small tables and queries over them from a seed: the same seed makes the same ones, on every machine.
//!
//! What the queries are made for is distribution, not expressions: joins of every type over keys with NULLs and one hot value, groupings, DISTINCT,
//! set operations, windows, limits. They use only what has one right answer whatever the number of tasks: no floating point, no order
//! without a unique last key, no average (engines round it differently).

mod queries;
mod tables;

pub use queries::query;
pub use tables::{Input, inputs};

/// xorshift64*: enough for test data, and nothing to depend on.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        // Zero is the one state it cannot leave, and near seeds should not give near sequences.
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        dice.roll();
        dice
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.roll() >> 16) % bound
    }

    pub fn chance(&mut self, per_cent: u64) -> bool {
        self.below(100) < per_cent
    }

    pub fn pick<'a>(&mut self, from: &'a [&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_queries_again() {
        let many = |seed| (0..50u64).map(|n| query(&mut Dice::new(seed + n))).collect::<Vec<_>>();
        assert_eq!(many(7), many(7));
        assert_ne!(many(7), many(8));
    }

    #[test]
    fn every_kind_of_query_comes_up() {
        let all: String = (0..400).map(|seed| query(&mut Dice::new(seed)) + "\n").collect();
        for word in [
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "NOT EXISTS",
            "NOT IN",
            "GROUP BY",
            "DISTINCT",
            "UNION ALL",
            "EXCEPT",
            "INTERSECT",
            "OVER (",
            "LIMIT",
            "HAVING",
            "small e",
        ] {
            assert!(all.contains(word), "no query has {word}");
        }
    }

    #[test]
    fn tables_have_nulls_and_a_hot_key() {
        let big = &inputs(3)[0];
        assert!(big.batch.column(1).null_count() > 0);
        assert!(big.batch.num_rows() > 1000);
    }
}
