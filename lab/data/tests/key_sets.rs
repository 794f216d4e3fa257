//! Every key set: distinct keys of the promised shape and order, the same today as ever.

use std::collections::HashSet;

use hedgerow_lab_data::key_set::{LONGEST_LINE_BYTES, read_lines};
use hedgerow_lab_data::{KeySet, KeySetError, Keys};

const COUNT: usize = 20_000;

/// Every made set, with the checksum of its first 20,000 keys. A changed checksum means that
/// results recorded before can no longer be compared.
const CHECKSUMS: [(&str, u64); 15] = [
    ("dense-u32", 0xDD11_71DD_D955_7F23),
    ("density-u32:40", 0xD820_579C_AAFC_51AF),
    ("dense-u64", 0xC733_170D_444B_D35F),
    ("sparse-u32", 0x5C6F_D317_92AE_C6B4),
    ("sparse-u64", 0xDE95_42DD_91E7_467F),
    ("monotone-u32", 0xED63_E410_C4E5_69F2),
    ("monotone-u64", 0xE364_A23F_B676_29E1),
    ("partitioned:100", 0x01DF_A0A3_F7C3_AA16),
    ("decimal", 0xB229_E8C2_D078_A87D),
    ("prefixed-decimal:0", 0xE33B_BA68_7410_CA36),
    ("prefixed-decimal:40", 0x5E25_D36E_1338_DC67),
    ("letters", 0x6D2F_D6DF_0AD2_8962),
    ("ycsb", 0xAE9A_7EFB_A7E6_F080),
    ("email", 0xF4D1_7287_23D0_202F),
    ("path", 0xC66D_A662_F530_36C2),
];

fn set(name: &str) -> KeySet {
    name.parse().unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn keys(name: &str) -> Keys {
    set(name)
        .keys(COUNT)
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn number(key: &[u8]) -> u64 {
    key.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

#[test]
fn sets_are_what_they_always_were() {
    let now: Vec<(&str, u64)> = CHECKSUMS
        .iter()
        .map(|(name, _)| (*name, keys(name).checksum()))
        .collect();
    assert_eq!(now, CHECKSUMS);
}

#[test]
fn names_are_parsed_and_printed_alike() {
    let others = ["file:a/b c.txt", "stdin", "sample:words", "fetched:paths"];
    for name in CHECKSUMS.iter().map(|(name, _)| *name).chain(others) {
        assert_eq!(set(name).to_string(), name);
    }
    assert_eq!(set("file:-"), KeySet::Stdin);
    for (wrong, message) in [
        (
            "dense",
            "no key set is called 'dense'; there are dense-u32, ",
        ),
        ("decimal:3", "no key set is called 'decimal:3'"),
        ("partitioned", "no key set is called 'partitioned'"),
        (
            "partitioned:0",
            "'partitioned:0' needs 1 to 1048576 partitions",
        ),
        ("prefixed-decimal:-1", "needs 0 to 255 bytes of prefix"),
        ("file:", "'file:' needs a path"),
        (
            "sample:jokes",
            "'sample:jokes' needs paths, words or titles",
        ),
        (
            "fetched:jokes",
            "'fetched:jokes' needs a set that `hedgerow-lab fetch` lists",
        ),
    ] {
        let error = wrong.parse::<KeySet>().expect_err(wrong).to_string();
        assert!(error.contains(message), "{error}");
    }
    // Every documented family is among the sets tested here.
    for documented in KeySet::NAMES {
        let family = documented.split(':').next().expect("a first part");
        let tested = CHECKSUMS.iter().map(|(name, _)| *name).chain(others);
        assert!(
            tested
                .into_iter()
                .any(|name| name.split(':').next() == Some(family)),
            "{family}"
        );
    }
}

#[test]
fn keys_are_distinct_at_any_count() {
    for (name, _) in CHECKSUMS {
        for count in [0, 1, 2, 13, COUNT] {
            let keys = set(name).keys(count).expect("a small set");
            let distinct: HashSet<&[u8]> = keys.iter().collect();
            assert_eq!(distinct.len(), count, "{name}");
        }
    }
}

#[test]
fn integer_sets_have_their_width_and_range() {
    for (name, _) in CHECKSUMS {
        if let Some(bytes) = set(name).integer_bytes() {
            assert!(keys(name).iter().all(|key| key.len() == bytes), "{name}");
        }
    }
    for name in ["dense-u32", "dense-u64"] {
        let mut numbers: Vec<u64> = keys(name).iter().map(number).collect();
        assert!(!numbers.is_sorted(), "{name} comes in random order");
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..COUNT as u64), "{name}");
    }
    let mut sparser: Vec<u64> = keys("density-u32:40").iter().map(number).collect();
    sparser.sort_unstable();
    let last = sparser[COUNT - 1];
    assert!(
        (49_000..50_000).contains(&last),
        "{last} of a range of 50,000"
    );
    for name in ["monotone-u32", "monotone-u64"] {
        assert!(keys(name).iter().map(number).eq(0..COUNT as u64), "{name}");
    }
    for (name, bits) in [("sparse-u32", 32), ("sparse-u64", 64)] {
        let halves = keys(name)
            .iter()
            .filter(|key| number(key) >> (bits - 1) == 1)
            .count();
        assert!(
            (9500..10_500).contains(&halves),
            "{name}: {halves} in the upper half"
        );
    }
}

#[test]
fn partitions_count_up_each_for_itself() {
    let mut next = [0_u64; 100];
    for key in keys("partitioned:100").iter().map(number) {
        let (partition, counter) = ((key >> 32) as usize, key & 0xFFFF_FFFF);
        assert_eq!(counter, next[partition], "partition {partition}");
        next[partition] += 1;
    }
    assert!(
        next.iter().all(|count| (120..280).contains(count)),
        "{next:?}"
    );
}

#[test]
fn decimals_are_decimal_and_as_long_as_in_the_paper() {
    let decimals = keys("decimal");
    assert!(
        decimals
            .iter()
            .all(|key| key.iter().all(u8::is_ascii_digit))
    );
    assert!(
        decimals
            .iter()
            .all(|key| (1..=10).contains(&key.len()) && (key[0] != b'0' || key.len() == 1))
    );
    // Below 2^31, 53 % of the numbers have ten digits and 42 % nine. (The paper's "80 % of
    // the keys are 9 or 10 bytes long" is a lower bound.)
    let share = |bytes| decimals.iter().filter(|key| key.len() == bytes).count() * 100 / COUNT;
    assert!(
        (52..=55).contains(&share(10)) && (40..=43).contains(&share(9)),
        "{} {}",
        share(10),
        share(9)
    );
    for prefix in [0, 1, 24, 40] {
        let keys = keys(&format!("prefixed-decimal:{prefix}"));
        let shared = &keys.get(0)[..prefix];
        for key in keys.iter() {
            assert!(key.starts_with(shared) && key.len() == prefix + 8);
            assert!(key[prefix..].iter().all(u8::is_ascii_digit));
        }
    }
}

#[test]
fn textual_sets_look_like_what_they_are_named_after() {
    let text = |name| -> Vec<String> {
        keys(name)
            .iter()
            .map(|key| String::from_utf8(key.to_vec()).expect("text"))
            .collect()
    };
    for key in text("ycsb") {
        assert!(
            key.starts_with("user") && (5..=24).contains(&key.len()),
            "{key}"
        );
    }
    let emails = text("email");
    assert!(
        emails
            .iter()
            .all(|key| key.matches('@').count() == 1 && key.contains("example"))
    );
    let at_mail = emails
        .iter()
        .filter(|key| key.ends_with("@mail.example"))
        .count();
    assert!(
        (7000..9000).contains(&at_mail),
        "{at_mail} of 20000 at the largest domain"
    );
    let paths = text("path");
    let directories: HashSet<&str> = paths
        .iter()
        .filter_map(|p| p.rsplit_once('/'))
        .map(|p| p.0)
        .collect();
    assert!(paths.iter().all(|key| key.starts_with('/')));
    assert!(
        (COUNT / 13..=COUNT / 11).contains(&directories.len()),
        "{} directories",
        directories.len()
    );
    let mean = paths.iter().map(String::len).sum::<usize>() / COUNT;
    assert!((45..70).contains(&mean), "{mean} bytes a path");
}

#[test]
fn more_keys_are_added_at_the_end_where_the_set_says_so() {
    for name in [
        "sparse-u32",
        "sparse-u64",
        "monotone-u64",
        "partitioned:7",
        "decimal",
        "prefixed-decimal:8",
        "ycsb",
        "email",
    ] {
        let (few, many) = (
            set(name).keys(100).expect("keys"),
            set(name).keys(500).expect("keys"),
        );
        assert!(few.iter().eq(many.iter().take(100)), "{name}");
    }
}

#[test]
fn lines_become_keys() {
    let read = |text: &[u8]| read_lines(text, "the text");
    let keys = read(b"b\r\n\na\0\xFF\nb\n  c").expect("keys");
    assert_eq!(
        keys.iter().collect::<Vec<_>>(),
        [b"b" as &[u8], b"a\0\xFF", b"  c"]
    );
    let error = read(b"\n\r\n").expect_err("no keys").to_string();
    assert_eq!(
        error,
        "the text holds no keys (a key is a line that is not empty)"
    );

    let longest = vec![b'x'; LONGEST_LINE_BYTES];
    let with_end = [&longest[..], b"\r\ny\n"].concat();
    assert_eq!(read(&with_end).expect("keys").len(), 2);
    let error = read(&[b"a\n", &longest[..], b"x\n"].concat()).expect_err("too long");
    assert!(
        matches!(error, KeySetError::LongLine { line: 2, .. }),
        "{error}"
    );
}

#[test]
fn files_are_keys_in_their_order_and_spread_when_fewer_are_wanted() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("keys.txt");
    let text: String = (0..100).map(|n| format!("{n:03}\n")).collect();
    std::fs::write(&path, text).expect("written");
    let set: KeySet = format!("file:{}", path.display()).parse().expect("a name");
    let some = set.keys(4).expect("keys");
    assert_eq!(
        some.iter().collect::<Vec<_>>(),
        [b"000", b"025", b"050", b"075"]
    );
    assert_eq!(set.up_to(1000).expect("keys").len(), 100);
    let error = set.keys(101).expect_err("too few").to_string();
    assert!(
        error.ends_with("keys.txt has only 100 keys, 101 were asked for"),
        "{error}"
    );

    for missing in [
        "file:/does/not/exist".to_owned(),
        format!("file:{}", directory.path().display()),
    ] {
        let error = missing
            .parse::<KeySet>()
            .expect("a name")
            .keys(1)
            .expect_err("unreadable");
        assert!(error.to_string().starts_with("cannot read /"), "{error}");
    }
}

#[test]
fn shuffled_keys_are_the_same_keys() {
    let keys = keys("monotone-u32");
    let shuffled = keys.shuffled(3);
    assert_ne!(shuffled, keys);
    assert_ne!(shuffled.checksum(), keys.checksum());
    assert_eq!(shuffled, keys.shuffled(3));
    assert_eq!(shuffled.sorted(), keys);
    assert!(Keys::new().shuffled(3).is_empty());
}

#[test]
fn samples_are_small_real_and_described_beside_them() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("README.md");
    let mut total = 0;
    for (name, shape) in [("paths", '/'), ("words", 'a'), ("titles", ' ')] {
        let keys = set(&format!("sample:{name}"))
            .up_to(usize::MAX)
            .expect("a sample");
        assert!(keys.len() > 3000 && !keys.iter().is_sorted(), "{name}");
        let with_shape = keys
            .iter()
            .filter(|key| key.contains(&(shape as u8)))
            .count();
        assert!(with_shape * 2 > keys.len(), "{name}");
        assert!(
            readme.contains(&format!("| `{name}.txt` | {} |", keys.len())),
            "{name}: {}",
            keys.len()
        );
        total += keys.total_bytes();
    }
    assert!(total < 1 << 20);
    let error = set("sample:words")
        .keys(1_000_000)
        .expect_err("too many")
        .to_string();
    assert!(
        error.starts_with("key set sample:words has only "),
        "{error}"
    );
}
