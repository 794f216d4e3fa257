//! Writers among readers that follow each other: readers copy large values under the latch of the
//! leaf that names them, so that it is hardly ever free by itself.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use hedgerow_btree::BTreeIndex;
use hedgerow_btree::configuration::Adaptive;
use hedgerow_pages::{Options, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

/// Stops the other threads of a test, also where the test fails.
struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Short keys lie in the leaf that is the tree's root, longer ones in a layer's, which is latched
/// in another way.
#[test]
fn a_writer_of_a_leaf_has_its_turn_among_readers_of_large_values() {
    const WRITES: u32 = 10;
    for prefix in [0, 2_000] {
        let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
        let options = Options::new(128 << 20);
        let pool = Pool::<4096>::open(&vfs, Path::new("/pages"), &options).unwrap();
        let tree: BTreeIndex<Adaptive> = BTreeIndex::create(Arc::new(pool)).unwrap();
        let key = |n: u32| [vec![b'p'; prefix], n.to_be_bytes().to_vec()].concat();
        for n in 0..4 {
            tree.insert(&key(n), &vec![n as u8; 4 << 20]).unwrap();
        }
        let (stop, (done, written)) = (AtomicBool::new(false), mpsc::channel());
        std::thread::scope(|scope| {
            let _stop = StopWhenDropped(&stop);
            let (tree, stop) = (&tree, &stop);
            for n in 0..4 {
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let seen = tree.get(&key(n), |value| (value.len(), value[0])).unwrap();
                        assert_eq!(seen, Some((4 << 20, n as u8)));
                    }
                });
            }
            scope.spawn(move || {
                for n in 4..4 + WRITES {
                    tree.insert(&key(n), b"short").unwrap();
                    done.send(n).unwrap();
                }
            });
            for n in 4..4 + WRITES {
                let seen = written.recv_timeout(Duration::from_secs(120));
                assert_eq!(seen, Ok(n), "the writer starves, prefix {prefix}");
            }
        });
    }
}
