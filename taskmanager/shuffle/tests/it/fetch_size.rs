//! How much travels and how much is decoded, as a function of the block index alone.

use thalweg_shuffle::partition::Sizes;
use thalweg_shuffle::partition::cut::{MAX_BLOCK_ROWS, cut_blocks, fetch_cost};
use thalweg_types::Interval;

use crate::support::Rng;

const ROW: u64 = 104;

fn sizes(rng: &mut Rng, subpartitions: u32, rows_each: u64) -> Sizes {
    let rows: Vec<u64> = (0..subpartitions).map(|_| rows_each / 2 + rng.below(rows_each + 1)).collect();
    Sizes { bytes: rows.iter().map(|r| r * ROW).collect(), rows }
}

/// 1000 maps read by 1000 consumers: what they send and decode in all, compared with what they own.
#[test]
fn a_thousand_maps_by_a_thousand_consumers() {
    let (maps, consumers) = (1000u64, 1000u32);
    for rows_each in [200, 2_000] {
        let mut rng = Rng(rows_each);
        let (mut owned, mut sent, mut decoded) = (0, 0, 0);
        // the sizes of ten maps stand for all
        for _ in 0..10 {
            let sizes = sizes(&mut rng, 1024, rows_each);
            let map_bytes: u64 = sizes.bytes.iter().sum();
            let target = (map_bytes / u64::from(consumers)).clamp(16 << 10, 4 << 20);
            let blocks = cut_blocks(&sizes, target);
            for consumer in 0..consumers {
                let share = Interval::new(consumer * 1024 / consumers, (consumer + 1) * 1024 / consumers);
                let cost = fetch_cost(&blocks, share, 900, 256 << 10);
                owned += cost.owned;
                sent += cost.sent;
                decoded += cost.decoded;
            }
        }
        let scale = maps / 10;
        assert!(sent * 10 <= owned * 12, "sent {} for {} owned", sent * scale, owned * scale);
        assert!(decoded <= owned * 2, "decoded {} for {} owned", decoded * scale, owned * scale);
    }
}

#[test]
fn blocks_hold_every_row_once_and_keep_their_limits() {
    let mut rng = Rng(1);
    for round in 0..300 {
        let subpartitions = 1 + rng.below(700) as u32;
        let mut sizes = sizes(&mut rng, subpartitions, 1 + round % 50);
        for _ in 0..rng.below(5) {
            let at = rng.below(u64::from(subpartitions)) as usize;
            sizes.rows[at] = rng.below(300_000);
            sizes.bytes[at] = sizes.rows[at] * (1 + rng.below(200));
        }
        let target = 1 + rng.below(1 << 20);
        let blocks = cut_blocks(&sizes, target);
        let target = target.max(sizes.bytes.iter().sum::<u64>() / 16_384); // grows to keep their number down
        let mut rows = vec![0u64; subpartitions as usize];
        let mut last = 0;
        for block in &blocks {
            assert!(block.rows() > 0 && block.rows() <= MAX_BLOCK_ROWS);
            assert!(block.first >= last, "blocks ascend");
            last = block.first;
            let span = block.subpartitions();
            assert!(span.len() == 1 || block.bytes <= target);
            for id in span.iter() {
                let own = block.owned_rows(Interval::new(id, id + 1));
                rows[id as usize] += (own.end - own.start) as u64;
            }
            if let Some(pieces) = block.split(target / 4 + 1) {
                assert_eq!(pieces.iter().map(|(b, _)| b.rows()).sum::<usize>(), block.rows());
                assert!(pieces.windows(2).all(|w| w[0].1.end == w[1].1.start));
            }
        }
        assert_eq!(rows, sizes.rows);
    }
}
