//! A set of hashes that may say yes to a few more.
//!
//! A register-blocked Bloom filter: each hash sets four bits of one 64-bit word, so that a question costs one memory access. With
//! sixteen bits to a hash about one question in two hundred is answered wrongly with yes. Putze, Sanders, Singler, "Cache-, Hash- and
//! Space-Efficient Bloom Filters", 2007.

/// Bits per hash.
const BITS: usize = 16;

/// Made of all its hashes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bloom {
    words: Vec<u64>,
}

impl Bloom {
    pub fn of(hashes: &[u64]) -> Self {
        let mut words = vec![0; hashes.len().div_ceil(u64::BITS as usize / BITS).max(1)];
        for &hash in hashes {
            let (word, mask) = place(hash, words.len());
            words[word] |= mask;
        }
        Self { words }
    }

    /// True for every hash of the set.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let (word, mask) = place(hash, self.words.len());
        self.words[word] & mask == mask
    }

    /// Bytes of memory that a set of so many hashes takes.
    pub fn bytes(hashes: usize) -> usize {
        hashes.div_ceil(4).max(1) * size_of::<u64>()
    }
}

/// The upper half of a hash names the word, 24 bits of the lower half the four bits in it.
#[inline]
fn place(hash: u64, words: usize) -> (usize, u64) {
    let word = ((hash >> 32) * words as u64) >> 32;
    let mask = 1 << (hash & 63) | 1 << ((hash >> 6) & 63) | 1 << ((hash >> 12) & 63) | 1 << ((hash >> 18) & 63);
    (word as usize, mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mixing step of splitmix64.
    fn hash(n: u64) -> u64 {
        let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[test]
    fn what_is_in_it_is_found_and_little_else() {
        for size in [0, 1, 3, 1000, 100_000] {
            let inside: Vec<u64> = (0..size).map(hash).collect();
            let bloom = Bloom::of(&inside);
            assert!(inside.iter().all(|h| bloom.may_contain(*h)));
            let wrong = (1 << 40..(1 << 40) + 100_000).filter(|n| bloom.may_contain(hash(*n))).count();
            assert!(wrong < 800, "{wrong} of 100000 with {size} in it");
            assert_eq!(bloom.words.len() * 8, Bloom::bytes(inside.len()));
        }
    }
}
