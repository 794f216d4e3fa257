//! Calls with one deadline.
//!
//! [`Calls`] is what callers hold; its methods are in [`rows`](crate::rows) and
//! [`tables`](crate::tables), one for each method of the gateway.

use std::time::Instant;

use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::retry::{Effect, Repeat, Rules, run};
use crate::url::GatewayAddress;
use crate::wire::{Arguments, Shape};

/// Calls with one deadline: made by [`Gateways::until`](crate::Gateways::until) and
/// [`Gateways::within`](crate::Gateways::within).
#[derive(Clone, Copy)]
pub struct Calls<'a> {
    pool: &'a Pool,
    deadline: Instant,
}

impl<'a> Calls<'a> {
    pub(crate) fn new(pool: &'a Pool, deadline: Instant) -> Calls<'a> {
        Calls { pool, deadline }
    }

    /// When the calls end at the latest.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Where a gateway is.
    pub(crate) fn address(&self, gateway: usize) -> &GatewayAddress {
        self.pool.address(gateway)
    }

    fn rules(&self, effect: Effect, repeat: Repeat, only: Option<usize>) -> Rules {
        Rules {
            effect,
            repeat,
            only,
            deadline: self.deadline,
        }
    }

    /// A call that changes nothing.
    pub(crate) fn read<T>(&self, arguments: Arguments, shape: &Shape<T>) -> Result<T> {
        let rules = self.rules(Effect::None, Repeat::Freely, None);
        self.one(arguments, shape, &rules).map(|(result, _)| result)
    }

    /// A call that changes nothing, to any gateway or to `only`; with the gateway that answered.
    pub(crate) fn read_at<T>(
        &self,
        arguments: Arguments,
        shape: &Shape<T>,
        repeat: Repeat,
        only: Option<usize>,
    ) -> Result<(T, usize)> {
        self.one(arguments, shape, &self.rules(Effect::None, repeat, only))
    }

    /// A call that writes all or nothing.
    pub(crate) fn write<T>(
        &self,
        arguments: Arguments,
        shape: &Shape<T>,
        repeat: Repeat,
    ) -> Result<T> {
        let rules = self.rules(Effect::Atomic, repeat, None);
        self.one(arguments, shape, &rules).map(|(result, _)| result)
    }

    /// A call that writes several rows, each by itself.
    pub(crate) fn write_batch<T>(
        &self,
        arguments: Arguments,
        shape: &Shape<T>,
        repeat: Repeat,
    ) -> Result<T> {
        let rules = self.rules(Effect::Batch, repeat, None);
        self.one(arguments, shape, &rules).map(|(result, _)| result)
    }

    fn one<T>(&self, arguments: Arguments, shape: &Shape<T>, rules: &Rules) -> Result<(T, usize)> {
        let request = arguments.finish(self.pool.options.request_limit_bytes)?;
        let method = request.method();
        let (results, gateway) = run(self.pool, vec![request], shape, rules);
        match (results.into_iter().next(), gateway) {
            (Some(Ok(result)), Some(gateway)) => Ok((result, gateway)),
            (Some(Err(error)), _) => Err(error),
            _ => Err(Error::waited(
                method,
                std::time::Duration::ZERO,
                "a result that nobody gave",
            )),
        }
    }

    /// Several calls that each write all or nothing, under way at once on a connection. The results
    /// stand in their order.
    pub(crate) fn write_many<T>(
        &self,
        calls: impl Iterator<Item = Arguments>,
        shape: &Shape<T>,
        repeat: Repeat,
    ) -> Vec<Result<T>> {
        let limit = self.pool.options.request_limit_bytes;
        let encoded: Vec<_> = calls.map(|arguments| arguments.finish(limit)).collect();
        let mut refused = Vec::with_capacity(encoded.len());
        let mut requests = Vec::with_capacity(encoded.len());
        for request in encoded {
            match request {
                Ok(request) => {
                    requests.push(request);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        let rules = self.rules(Effect::Atomic, repeat, None);
        let (results, _) = run(self.pool, requests, shape, &rules);
        let mut results = results.into_iter();
        let results = refused.into_iter().map_while(|refused| match refused {
            Some(error) => Some(Err(error)),
            None => results.next(),
        });
        results.collect()
    }
}
