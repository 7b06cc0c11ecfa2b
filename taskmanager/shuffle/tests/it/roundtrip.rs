//! What is written is what is read, for every type and every number of subpartitions.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use thalweg_shuffle::schema::cast_batch;
use thalweg_shuffle::{Error, exchange_schema};
use thalweg_types::{Interval, JobId};

use crate::support::*;

fn input(seed: u64, sizes: &[usize]) -> (Vec<RecordBatch>, Vec<Vec<u64>>) {
    let mut rng = Rng(seed);
    let batches: Vec<_> = sizes.iter().map(|&rows| random_batch(&mut rng, rows)).collect();
    let hashes = sizes.iter().map(|&rows| random_hashes(&mut rng, rows)).collect();
    (batches, hashes)
}

fn check(seed: u64, sizes: &[usize], subpartitions: u32, flush: usize, block: usize, limit: u64) {
    let (batches, hashes) = input(seed, sizes);
    let stored = exchange_schema(&batches[0].schema()).unwrap();
    let plain: Vec<_> = batches.iter().map(|b| cast_batch(b, &stored).unwrap()).collect();
    let t = store(limit, |o| {
        o.flush_bytes = flush;
        o.block_bytes = block;
    });
    let stats = write(&t.store, key(1, 0, 1), &batches, &hashes, subpartitions);
    let expected = naive(&plain, &hashes, subpartitions);
    for id in 0..subpartitions {
        let got = read(&t.store, key(1, 0, 1), id, id + 1);
        assert_eq!(got.as_ref(), expected.get(&id), "subpartition {id} of {subpartitions}, seed {seed}");
        assert_eq!(stats.rows[id as usize], expected.get(&id).map_or(0, |b| b.num_rows() as u64));
    }
    let all = read(&t.store, key(1, 0, 1), 0, subpartitions).map_or(0, |b| b.num_rows());
    assert_eq!(all, sizes.iter().sum::<usize>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_type_arrives_whole_and_in_order(
        seed: u64,
        sizes in prop::collection::vec(0usize..400, 1..6),
        subpartitions in prop::sample::select(vec![1u32, 2, 64, 512, 1000]),
        flush in prop::sample::select(vec![1usize, 40_000, 1 << 20]),
        block in prop::sample::select(vec![1usize, 5_000, 1 << 20]),
        in_memory: bool,
    ) {
        check(seed, &sizes, subpartitions, flush, block, if in_memory { u64::MAX / 2 } else { 0 });
    }
}

#[test]
fn a_finer_partitioning_nests_in_a_coarser_one() {
    let (batches, hashes) = input(5, &[500, 500]);
    let t = store(u64::MAX / 2, |o| o.flush_bytes = 50_000);
    write(&t.store, key(1, 0, 1), &batches, &hashes, 64);
    write(&t.store, key(2, 0, 1), &batches, &hashes, 128);
    for id in 0..64 {
        let coarse = read(&t.store, key(1, 0, 1), id, id + 1).map_or(0, |b| b.num_rows());
        let fine = read(&t.store, key(2, 0, 1), 2 * id, 2 * id + 2).map_or(0, |b| b.num_rows());
        assert_eq!(coarse, fine);
    }
}

#[test]
fn one_key_fills_many_blocks_and_row_positions_cut_them() {
    let mut rng = Rng(3);
    let batches: Vec<_> = (0..20).map(|_| simple_batch(&mut rng, 8192)).collect();
    let hashes = vec![vec![u64::MAX / 3; 8192]; 20];
    for limit in [u64::MAX / 2, 0] {
        let t = store(limit, |o| {
            o.flush_bytes = 1 << 20;
            o.block_bytes = 100_000;
        });
        write(&t.store, key(1, 0, 1), &batches, &hashes, 512);
        let id = thalweg_shuffle::subpartition(u64::MAX / 3, 512);
        let all = read(&t.store, key(1, 0, 1), id, id + 1).unwrap();
        let expected: Vec<i64> =
            batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        assert_eq!(all.column(0).as_primitive::<Int64Type>().values(), &expected[..]);
        let mut positions = vec![0, 1, 60_000, 100_000, 163_839, 163_840];
        positions.dedup();
        for cut in positions.windows(2) {
            let rows = Interval::new(cut[0], cut[1]);
            let reader = t.store.read(&key(1, 0, 1), Interval::new(id, id + 1), Some(rows)).unwrap();
            let got: Vec<_> = reader.coalesced().map(Result::unwrap).collect();
            let got = concat(&got).unwrap();
            assert_eq!(got, all.slice(cut[0] as usize, (cut[1] - cut[0]) as usize));
        }
    }
}

#[test]
fn a_single_subpartition_keeps_order_without_hashes_whatever_the_batch_size() {
    let mut rng = Rng(9);
    let sizes = [3, 0, 200_000, 8192, 8192, 1, 65_535, 65_536];
    let batches: Vec<_> = sizes.iter().map(|&rows| simple_batch(&mut rng, rows)).collect();
    let t = store(u64::MAX / 2, |_| {});
    let mut writer = t.store.writer(key(1, 0, 1), batches[0].schema(), 1).unwrap();
    batches.iter().for_each(|b| writer.write(b.clone(), None).unwrap());
    let stats = writer.finish().unwrap();
    assert_eq!(stats.rows, [sizes.iter().sum::<usize>() as u64]);
    assert_eq!(read(&t.store, key(1, 0, 1), 0, 1).unwrap(), concat(&batches).unwrap());
}

#[test]
fn batches_without_columns_keep_their_row_count() {
    let schema = std::sync::Arc::new(arrow::datatypes::Schema::empty());
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(100_000));
    let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
    for limit in [u64::MAX / 2, 0] {
        let t = store(limit, |_| {});
        let mut writer = t.store.writer(key(1, 0, 1), schema.clone(), 1).unwrap();
        writer.write(batch.clone(), None).unwrap();
        assert_eq!(writer.finish().unwrap().rows, [100_000]);
        let rows: usize =
            t.store.read(&key(1, 0, 1), Interval::new(0, 1), None).unwrap().map(|b| b.unwrap().num_rows()).sum();
        assert_eq!(rows, 100_000);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let t = store(u64::MAX / 2, |_| {});
    let batch = simple_batch(&mut Rng(1), 10);
    let mut writer = t.store.writer(key(1, 0, 1), batch.schema(), 8).unwrap();
    let none = writer.write(batch.clone(), None).unwrap_err();
    assert!(none.to_string().contains("need hashes"), "{none}");
    let few = writer.write(batch.clone(), Some(&[1, 2])).unwrap_err();
    assert!(few.to_string().contains("2 hashes for 10 rows"), "{few}");
    let other = writer.write(batch.project(&[1, 0]).unwrap(), Some(&[0; 10])).unwrap_err();
    assert!(matches!(other, Error::InvalidInput { .. }), "{other}");
}

#[test]
fn only_finished_outputs_are_found_and_newer_attempts_replace_older_ones() {
    let t = store(u64::MAX / 2, |_| {});
    let batch = simple_batch(&mut Rng(1), 100);
    let hashes = vec![random_hashes(&mut Rng(2), 100)];
    let open = t.store.writer(key(1, 0, 1), batch.schema(), 8).unwrap();
    let err = t.store.read(&key(1, 0, 1), Interval::new(0, 8), None).unwrap_err();
    assert!(matches!(err, Error::NotFound { .. }), "{err}");
    drop(open);
    write(&t.store, key(1, 0, 2), std::slice::from_ref(&batch), &hashes, 8);
    write(&t.store, key(1, 0, 1), std::slice::from_ref(&batch), &hashes, 8); // a late older attempt changes nothing
    assert!(matches!(t.store.read(&key(1, 0, 1), Interval::new(0, 8), None), Err(Error::NotFound { .. })));
    assert_eq!(read(&t.store, key(1, 0, 2), 0, 8).unwrap().num_rows(), 100);
    write(&t.store, key(1, 0, 3), std::slice::from_ref(&batch), &hashes, 8);
    assert!(matches!(t.store.read(&key(1, 0, 2), Interval::new(0, 8), None), Err(Error::NotFound { .. })));
    assert_eq!(t.store.usage().outputs, 1);
    assert_eq!(t.store.outputs(exchange_key(1), Interval::new(0, 10)), [key(1, 0, 3)]);
    let late = t.store.writer(key(1, 1, 1), batch.schema(), 8).unwrap();
    t.store.release_job(JobId(0xA11CE));
    late.finish().unwrap();
    assert_eq!(t.store.usage(), thalweg_shuffle::Usage::default(), "an output finished after the release is dropped");
}
