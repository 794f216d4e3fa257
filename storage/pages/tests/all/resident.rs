//! The provider that keeps all pages in memory, against a map.

use std::collections::HashMap;

use hedgerow_pages::{PageId, Pages, Resident, View, ViewMut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

#[test]
fn pages_keep_their_bytes_and_numbers_are_reused() {
    let mut pages = Resident::<4096>::new();
    let mut model: HashMap<PageId, u64> = HashMap::new();
    let mut random = StdRng::seed_from_u64(4);
    pages.begin();
    for step in 0..20_000_u64 {
        let some = model
            .keys()
            .copied()
            .min_by_key(|id| id.0 ^ (step as u32 & 63));
        match (random.random_range(0..4), some) {
            (0, Some(id)) => {
                let page = pages.exclusive(id).unwrap();
                pages.release(page, &()).unwrap();
                model.remove(&id);
            }
            (1, Some(id)) => {
                let seen = pages.optimistic(id).unwrap();
                assert_eq!(pages.seen(&seen).u64(4088), Ok(model[&id]));
                let mut page = pages.upgrade(&seen).unwrap();
                pages.change(&mut page, &()).unwrap().put_u64(4088, step);
                model.insert(id, step);
                assert!(pages.validate(&seen).is_ok());
            }
            _ => {
                let mut page = pages.allocate(&()).unwrap();
                pages.touch(&mut page).put_u64(4088, step);
                assert_eq!(model.insert(pages.id(&page), step), None, "used twice");
            }
        }
        assert_eq!(pages.live(), model.len());
    }
    for (id, value) in &model {
        let page = pages.shared(*id).unwrap();
        assert_eq!(pages.shared_image(&page).u64(4088), Ok(*value));
    }
    assert!(pages.resident_bytes() < 3 * model.len() * 4096);
}

/// Goes through all the places that pages may have: none, a few, and a run that moves.
fn grow_past_all_places<const PAGE: usize>() {
    let mut pages = Resident::<PAGE>::new();
    assert_eq!(pages.resident_bytes(), 0);
    let count = ((9 << 20) / 2 / PAGE) as u64;
    for number in 0..count {
        let mut page = pages.allocate(&()).unwrap();
        let mut bytes = pages.touch(&mut page);
        bytes.put_u64(0, number);
        bytes.put_u64(PAGE - 8, !number);
    }
    for number in 0..count {
        let page = pages.page(PageId(number as u32));
        assert_eq!(page.bytes().as_ptr() as usize % 64, 0);
        assert_eq!((page.u64(0), page.u64(PAGE - 8)), (Ok(number), Ok(!number)));
    }
    assert!(pages.resident_bytes() as u64 >= count * PAGE as u64);
}

#[test]
fn pages_of_any_size_keep_their_bytes_where_they_move() {
    grow_past_all_places::<256>();
    grow_past_all_places::<4096>();
    grow_past_all_places::<65536>();
}

#[test]
#[should_panic(expected = "never allocated")]
fn a_number_that_was_never_given_out_is_no_page() {
    let pages = Resident::<4096>::new();
    let seen = pages.optimistic(PageId(0)).unwrap();
    let _ = pages.seen(&seen);
}
