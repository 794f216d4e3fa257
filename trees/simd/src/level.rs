//! Which kernel this processor runs, and how an operation enters it.

use crate::kernel::{Binary, Kernel, Linear, Scalar};
#[cfg(target_arch = "x86_64")]
use crate::sse2::Sse2;
#[cfg(target_arch = "x86_64")]
use crate::x86::{Avx2, Avx512};

/// The search kernel of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Linear search in key order (for comparison, §4.8).
    Linear,
    /// Binary search in key order (for comparison, §4.8).
    Binary,
    /// Branch-free comparison of all slots, portable.
    Scalar,
    /// 128-bit vectors, which every x86-64 processor has; only made by [`Level::detect`] and
    /// [`Level::supported`].
    Sse2(Supported),
    /// 256-bit vectors; only made by [`Level::detect`] and [`Level::supported`].
    Avx2(Supported),
    /// 512-bit vectors; only made by [`Level::detect`] and [`Level::supported`].
    Avx512(Supported),
}

/// Proof that the processor was asked; nobody else can make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supported(());

/// An operation that searches nodes, written once for every kernel.
///
/// `run` must be `#[inline(always)]` down to the kernel calls, or the kernels are called
/// instead of inlined (correct, but slow).
pub trait Task {
    /// What the operation returns.
    type Output;
    /// The operation, with its kernel.
    fn run<K: Kernel>(self) -> Self::Output;
}

/// An operation on pages, which is compiled three times: for every processor, and for those with
/// AVX2 and with AVX-512. Instructions that came with AVX2 shift by a register and count bits in
/// one step each, which reading small integers from a page consists of.
///
/// `run` must be `#[inline(always)]` down to what is to gain by it, as for a [`Task`].
pub trait Operation {
    /// What the operation returns.
    type Output;
    /// The operation, with its kernel.
    fn run<K: Kernel>(self) -> Self::Output;
}

impl Level {
    /// The best level of this processor, unless the environment variable `HEDGEROW_SIMD`
    /// (`linear`, `binary`, `scalar`, `sse2`, `avx2`, `avx512`) names another one it supports.
    pub fn detect() -> Level {
        let supported = Self::supported();
        let best = supported.last().copied().unwrap_or(Level::Scalar);
        let Ok(wanted) = std::env::var("HEDGEROW_SIMD") else {
            return best;
        };
        supported
            .into_iter()
            .find(|level| level.name() == wanted)
            .unwrap_or(best)
    }

    /// Every level that this processor can run, slowest first.
    pub fn supported() -> Vec<Level> {
        #[allow(unused_mut)]
        let mut levels = vec![Level::Linear, Level::Binary, Level::Scalar];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            levels.push(Level::Sse2(Supported(())));
            if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("bmi1")
                && std::arch::is_x86_feature_detected!("bmi2")
                && std::arch::is_x86_feature_detected!("popcnt")
                && std::arch::is_x86_feature_detected!("lzcnt")
            {
                levels.push(Level::Avx2(Supported(())));
                if std::arch::is_x86_feature_detected!("avx512f") {
                    levels.push(Level::Avx512(Supported(())));
                }
            }
        }
        levels
    }

    /// The level's name, as in `HEDGEROW_SIMD`.
    pub fn name(self) -> &'static str {
        match self {
            Level::Linear => "linear",
            Level::Binary => "binary",
            Level::Scalar => "scalar",
            Level::Sse2(_) => "sse2",
            Level::Avx2(_) => "avx2",
            Level::Avx512(_) => "avx512",
        }
    }

    /// Runs `task` compiled for this level.
    #[inline(always)]
    pub fn run<T: Task>(self, task: T) -> T::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `Supported` exists only after the processor was found to have AVX2,
            // BMI1, BMI2, POPCNT and LZCNT (`Level::supported` is the only maker).
            Level::Avx2(_) => unsafe { run_avx2(task) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above, and AVX-512F.
            Level::Avx512(_) => unsafe { run_avx512(task) },
            other => other.run_narrow(task),
        }
    }

    /// Runs an operation as it is compiled for this level.
    #[inline(always)]
    pub fn run_operation<O: Operation>(self, operation: O) -> O::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as in `run`.
            Level::Avx2(_) => unsafe { run_operation_avx2(operation) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as in `run`.
            Level::Avx512(_) => unsafe { run_operation_avx512(operation) },
            _ => run_operation_anywhere(operation),
        }
    }

    /// [`run`](Self::run) for the levels that few processors are left to. Apart, so that the others
    /// are told apart by two comparisons and not by a jump through a table.
    #[cold]
    #[inline(never)]
    fn run_narrow<T: Task>(self, task: T) -> T::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Sse2(_) => run_sse2(task),
            Level::Scalar => run_scalar(task),
            Level::Binary => run_binary(task),
            _ => run_linear(task),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
#[inline]
fn run_avx2<T: Task>(task: T) -> T::Output {
    task.run::<Avx2>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,popcnt,lzcnt")]
#[inline]
fn run_avx512<T: Task>(task: T) -> T::Output {
    task.run::<Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
#[inline]
fn run_operation_avx2<O: Operation>(operation: O) -> O::Output {
    operation.run::<Avx2>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx2,bmi1,bmi2,popcnt,lzcnt")]
#[inline]
fn run_operation_avx512<O: Operation>(operation: O) -> O::Output {
    operation.run::<Avx512>()
}

#[inline(never)]
fn run_operation_anywhere<O: Operation>(operation: O) -> O::Output {
    operation.run::<Scalar>()
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn run_sse2<T: Task>(task: T) -> T::Output {
    task.run::<Sse2>()
}

#[inline(never)]
fn run_scalar<T: Task>(task: T) -> T::Output {
    task.run::<Scalar>()
}

#[inline(never)]
fn run_binary<T: Task>(task: T) -> T::Output {
    task.run::<Binary>()
}

#[inline(never)]
fn run_linear<T: Task>(task: T) -> T::Output {
    task.run::<Linear>()
}
