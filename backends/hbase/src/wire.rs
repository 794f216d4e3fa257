//! Calls and answers as bytes: Thrift's strict binary protocol, in frames.
//!
//! ```text
//! frame      length of the message: 4 bytes, big endian │ message
//! message    0x8001, 0, kind │ method: length, bytes │ sequence number: 4 bytes │ structure
//! structure  (type: 1 byte, field id: 2 bytes, value)… │ 0
//! ```
//!
//! A message may go in several frames ([`Arguments::keys_apart`]); a gateway answers in one.
//!
//! The structure of a call holds its arguments by the ids that the IDL gives them; the structure of
//! an answer holds the result as field 0, or an exception as field 1 or 2. A [`Request`] is encoded
//! once, however often it is sent: only its sequence number changes.
//!
//! Answers are not trusted. [`decode`] works on a frame that has been read whole; nothing in it can
//! make the decoder panic, read past the frame, or reserve more memory than the frame accounts for.

use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TListIdentifier,
    TMessageIdentifier, TMessageType, TOutputProtocol, TSerializable, TStructIdentifier, TType,
};
use thrift::{ApplicationErrorKind, TConfiguration};

use crate::error::{Error, Origin, Refusal, Result};
use crate::thrift2::{TIOError, TIllegalArgument};

/// Length of the field that announces a message's length.
pub(crate) const HEADER_BYTES: usize = 4;

/// A call, encoded as a frame.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    method: &'static str,
    frame: Vec<u8>,
}

impl Request {
    /// The method of the gateway.
    pub(crate) fn method(&self) -> &'static str {
        self.method
    }

    /// The frame, with this sequence number.
    pub(crate) fn frame(&mut self, number: i32) -> &[u8] {
        // Behind the header: kind, length of the method's name, the name.
        let at = HEADER_BYTES + 4 + 4 + self.method.len();
        self.frame[at..at + 4].copy_from_slice(&number.to_be_bytes());
        &self.frame
    }

    /// The length of the frame.
    pub(crate) fn bytes(&self) -> usize {
        self.frame.len()
    }
}

/// The arguments of a call, as they are encoded: each method adds one.
pub(crate) struct Arguments {
    method: &'static str,
    protocol: TBinaryOutputProtocol<Vec<u8>>,
    /// Where in the frame another frame is to begin.
    cuts: Vec<usize>,
    /// The first error. A vector takes all bytes, so there is none.
    result: thrift::Result<()>,
}

impl Arguments {
    /// Begins a call.
    pub(crate) fn of(method: &'static str) -> Arguments {
        let frame = vec![0; HEADER_BYTES];
        let mut protocol = TBinaryOutputProtocol::new(frame, true);
        let message = TMessageIdentifier::new(method, TMessageType::Call, 0);
        let result = protocol
            .write_message_begin(&message)
            .and_then(|()| protocol.write_struct_begin(&TStructIdentifier::new(method)));
        Arguments {
            method,
            protocol,
            cuts: Vec::new(),
            result,
        }
    }

    fn field(
        mut self,
        id: i16,
        wire: TType,
        value: impl FnOnce(&mut TBinaryOutputProtocol<Vec<u8>>) -> thrift::Result<()>,
    ) -> Arguments {
        let protocol = &mut self.protocol;
        self.result = self.result.and_then(|()| {
            protocol.write_field_begin(&TFieldIdentifier::new::<
                Option<String>,
                String,
                Option<i16>,
            >(None, wire, Some(id)))?;
            value(protocol)
        });
        self
    }

    pub(crate) fn bytes(self, id: i16, value: &[u8]) -> Arguments {
        self.field(id, TType::String, |protocol| protocol.write_bytes(value))
    }

    /// Nothing where there is no value.
    pub(crate) fn optional_bytes(self, id: i16, value: Option<&[u8]>) -> Arguments {
        match value {
            Some(value) => self.bytes(id, value),
            None => self,
        }
    }

    pub(crate) fn integer(self, id: i16, value: i32) -> Arguments {
        self.field(id, TType::I32, |protocol| protocol.write_i32(value))
    }

    pub(crate) fn flag(self, id: i16, value: bool) -> Arguments {
        self.field(id, TType::Bool, |protocol| protocol.write_bool(value))
    }

    pub(crate) fn structure(self, id: i16, value: &impl TSerializable) -> Arguments {
        self.field(id, TType::Struct, |protocol| {
            value.write_to_out_protocol(protocol)
        })
    }

    pub(crate) fn structures<T: TSerializable>(self, id: i16, values: &[T]) -> Arguments {
        self.field(id, TType::List, |protocol| {
            write_list_begin(protocol, TType::Struct, values.len())?;
            let mut values = values.iter();
            values.try_for_each(|value| value.write_to_out_protocol(protocol))
        })
    }

    /// A list of keys, each of which begins in a frame of its own.
    ///
    /// Of a key that lies in one frame with its length a gateway of HBase 2.6 takes the bytes of
    /// the whole frame (`ThriftUtilities.splitKeyFromThrift` in its sources). One that begins
    /// behind the frame of its length it reads by itself.
    pub(crate) fn keys_apart(mut self, id: i16, keys: &[Vec<u8>]) -> Arguments {
        let mut cuts = std::mem::take(&mut self.cuts);
        let mut with_keys = self.field(id, TType::List, |protocol| {
            write_list_begin(protocol, TType::String, keys.len())?;
            keys.iter().try_for_each(|key| {
                protocol.write_bytes(key)?;
                cuts.push(protocol.transport.len() - key.len());
                Ok(())
            })
        });
        with_keys.cuts = cuts;
        with_keys
    }

    /// Ends the call.
    ///
    /// # Errors
    ///
    /// [`Error::RequestTooLong`] if the frame has more than `limit` bytes.
    pub(crate) fn finish(mut self, limit: usize) -> Result<Request> {
        let method = self.method;
        let ended = self.result.and_then(|()| self.protocol.write_field_stop());
        let mut frame = self.protocol.transport;
        match &self.cuts[..] {
            [] => {
                // Who sends a call of more bytes is refused below.
                let length = (frame.len() - HEADER_BYTES) as u32;
                frame[..HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
            }
            cuts => frame = in_frames(&frame[HEADER_BYTES..], cuts),
        }
        let bytes = frame.len();
        let is_short = i32::try_from(bytes).is_ok() && bytes <= limit;
        match (ended, is_short) {
            (Ok(()), true) => Ok(Request { method, frame }),
            _ => Err(Error::RequestTooLong {
                call: method,
                bytes,
                limit,
            }),
        }
    }
}

/// A message in frames: the first, and one from each cut on, which are counted with the header of
/// one frame.
fn in_frames(message: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut frames = Vec::with_capacity(message.len() + HEADER_BYTES * (cuts.len() + 1));
    let mut begin = 0;
    let ends = cuts.iter().map(|cut| cut - HEADER_BYTES);
    for end in ends.chain([message.len()]) {
        let part = &message[begin..end];
        frames.extend_from_slice(&(part.len() as u32).to_be_bytes());
        frames.extend_from_slice(part);
        begin = end;
    }
    frames
}

fn write_list_begin(
    protocol: &mut TBinaryOutputProtocol<Vec<u8>>,
    element: TType,
    elements: usize,
) -> thrift::Result<()> {
    // A list of more elements than fit makes a frame of more bytes than fit, which is refused.
    let elements = i32::try_from(elements).unwrap_or(i32::MAX);
    protocol.write_list_begin(&TListIdentifier::new(element, elements))
}

/// What the result of a method looks like.
pub(crate) struct Shape<T> {
    wire: TType,
    read: fn(&mut dyn TInputProtocol) -> thrift::Result<T>,
    /// The result of a method that has none.
    nothing: fn() -> Option<T>,
    /// Whether a result says that nothing was written because of what the rows hold already.
    pub(crate) is_negative: fn(&T) -> bool,
}

/// Of a method without a result.
pub(crate) const VOID: Shape<()> = Shape {
    wire: TType::Void,
    read: |_| Ok(()),
    nothing: || Some(()),
    is_negative: |()| false,
};

pub(crate) const FLAG: Shape<bool> = Shape {
    wire: TType::Bool,
    read: |protocol| protocol.read_bool(),
    nothing: || None,
    is_negative: |_| false,
};

/// Of a checked write: whether the check held.
pub(crate) const CHECKED: Shape<bool> = Shape {
    is_negative: |held| !held,
    ..FLAG
};

pub(crate) const INTEGER: Shape<i32> = Shape {
    wire: TType::I32,
    read: |protocol| protocol.read_i32(),
    nothing: || None,
    is_negative: |_| false,
};

pub(crate) const TEXT: Shape<String> = Shape {
    wire: TType::String,
    read: |protocol| protocol.read_string(),
    nothing: || None,
    is_negative: |_| false,
};

pub(crate) const TEXTS: Shape<Vec<String>> = Shape {
    wire: TType::List,
    read: |protocol| read_list(protocol, TType::String, |protocol| protocol.read_string()),
    nothing: || None,
    is_negative: |_| false,
};

pub(crate) const fn structure<T: TSerializable>() -> Shape<T> {
    Shape {
        wire: TType::Struct,
        read: T::read_from_in_protocol,
        nothing: || None,
        is_negative: |_| false,
    }
}

pub(crate) const fn structures<T: TSerializable>() -> Shape<Vec<T>> {
    Shape {
        wire: TType::List,
        read: |protocol| read_list(protocol, TType::Struct, T::read_from_in_protocol),
        nothing: || None,
        is_negative: |_| false,
    }
}

fn read_list<T>(
    protocol: &mut dyn TInputProtocol,
    element: TType,
    read: fn(&mut dyn TInputProtocol) -> thrift::Result<T>,
) -> thrift::Result<Vec<T>> {
    let list = protocol.read_list_begin()?;
    // Thrift's peers may write any type for the elements of an empty list.
    if list.size > 0 && list.element_type != element {
        return Err(malformed(format!(
            "a list of {} where one of {element} was expected",
            list.element_type
        )));
    }
    let mut values = Vec::with_capacity(thrift::protocol::prealloc_size(list.size));
    for _ in 0..list.size {
        values.push(read(protocol)?);
    }
    protocol.read_list_end()?;
    Ok(values)
}

fn malformed(why: String) -> thrift::Error {
    let kind = thrift::ProtocolErrorKind::InvalidData;
    thrift::new_protocol_error(kind, why)
}

/// What a frame says.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    Result(T),
    Refusal(Refusal),
}

/// Reads the answer to a call of `method` with this sequence number from the message of a frame.
///
/// # Errors
///
/// What is wrong with the message, where it is no such answer.
pub(crate) fn decode<T>(
    message: &[u8],
    method: &str,
    number: i32,
    shape: &Shape<T>,
) -> std::result::Result<Answer<T>, String> {
    let mut rest = message;
    let answer = read_message(&mut rest, message.len(), method, number, shape);
    let answer = answer.map_err(|error| describe(&error))?;
    match rest.len() {
        0 => Ok(answer),
        left => Err(format!("{left} bytes stand behind the end of its answer")),
    }
}

fn read_message<T>(
    input: &mut &[u8],
    bytes: usize,
    method: &str,
    number: i32,
    shape: &Shape<T>,
) -> thrift::Result<Answer<T>> {
    // No text and no list can be longer than the message.
    let limits = TConfiguration::builder()
        .max_frame_size(None)
        .max_message_size(Some(bytes))
        .max_string_size(Some(bytes))
        .build()?;
    let mut protocol = TBinaryInputProtocol::with_config(input, true, limits);
    let message = protocol.read_message_begin()?;
    if message.name != method || message.sequence_number != number {
        return Err(malformed(format!(
            "an answer to call {} of {:?} where one to call {number} of {method:?} was expected",
            message.sequence_number,
            message.name.chars().take(40).collect::<String>(),
        )));
    }
    match message.message_type {
        TMessageType::Reply => read_result(&mut protocol, shape),
        TMessageType::Exception => {
            let error = thrift::Error::read_application_error_from_in_protocol(&mut protocol)?;
            let origin = match error.kind {
                ApplicationErrorKind::UnknownMethod => Origin::UnknownMethod,
                _ => Origin::Internal,
            };
            Ok(Answer::Refusal(Refusal::of_gateway(&error.message, origin)))
        }
        kind => Err(malformed(format!(
            "a message of the kind {kind}, which is no answer"
        ))),
    }
}

fn read_result<T>(
    protocol: &mut TBinaryInputProtocol<&mut &[u8]>,
    shape: &Shape<T>,
) -> thrift::Result<Answer<T>> {
    let mut result = None;
    let mut refusal = None;
    protocol.read_struct_begin()?;
    loop {
        let field = protocol.read_field_begin()?;
        match (field.id, field.field_type) {
            (_, TType::Stop) => break,
            (Some(0), wire) if wire == shape.wire => result = Some((shape.read)(protocol)?),
            (Some(1), TType::Struct) => {
                let error = TIOError::read_from_in_protocol(protocol)?;
                refusal = Some(Refusal::of_hbase(error.message.as_deref(), error.can_retry));
            }
            (Some(2), TType::Struct) => {
                let error = TIllegalArgument::read_from_in_protocol(protocol)?;
                let message = error.message.unwrap_or_default();
                refusal = Some(Refusal::of_gateway(&message, Origin::Arguments));
            }
            (_, wire) => protocol.skip(wire)?,
        }
        protocol.read_field_end()?;
    }
    protocol.read_struct_end()?;
    if let Some(refusal) = refusal {
        return Ok(Answer::Refusal(refusal));
    }
    match result.or_else(shape.nothing) {
        Some(result) => Ok(Answer::Result(result)),
        None => Err(malformed("an answer without a result".to_owned())),
    }
}

/// The message of an error of the thrift crate, which shows only the kind by itself.
fn describe(error: &thrift::Error) -> String {
    match error {
        thrift::Error::Transport(error) if error.kind == thrift::TransportErrorKind::EndOfFile => {
            "its frame ends within the answer".to_owned()
        }
        thrift::Error::Transport(error) => error.message.clone(),
        thrift::Error::Protocol(error) => error.message.clone(),
        thrift::Error::Application(error) => error.message.clone(),
        thrift::Error::User(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thrift2::{TColumnValue, TResult};

    /// The message of an answer, whose structure `write` writes.
    fn message(
        method: &str,
        kind: TMessageType,
        write: impl FnOnce(&mut TBinaryOutputProtocol<&mut Vec<u8>>) -> thrift::Result<()>,
    ) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut protocol = TBinaryOutputProtocol::new(&mut bytes, true);
        let begin = TMessageIdentifier::new(method, kind, 7);
        let written = protocol
            .write_message_begin(&begin)
            .and_then(|()| write(&mut protocol))
            .and_then(|()| protocol.write_field_stop());
        written.expect("a vector takes all bytes");
        bytes
    }

    fn field(
        protocol: &mut TBinaryOutputProtocol<&mut Vec<u8>>,
        wire: TType,
        id: i16,
    ) -> thrift::Result<()> {
        protocol.write_field_begin(
            &TFieldIdentifier::new::<Option<String>, String, Option<i16>>(None, wire, Some(id)),
        )
    }

    fn flag_message() -> Vec<u8> {
        message("exists", TMessageType::Reply, |protocol| {
            field(protocol, TType::Bool, 0)?;
            protocol.write_bool(true)
        })
    }

    #[test]
    fn keys_apart_begin_in_frames_of_their_own() {
        let keys = [b"k".to_vec(), b"long".to_vec()];
        let arguments = Arguments::of("m").keys_apart(2, &keys).flag(3, true);
        let mut request = arguments.finish(100).expect("short enough");
        let first =
            b"\0\0\0\x19\x80\x01\0\x01\0\0\0\x01m\0\0\0\x05\x0f\0\x02\x0b\0\0\0\x02\0\0\0\x01";
        let others = b"\0\0\0\x05k\0\0\0\x04\0\0\0\x09long\x02\0\x03\x01\0";
        let whole = [&first[..], &others[..]].concat();
        assert_eq!(
            request.frame(5).escape_ascii().to_string(),
            whole.escape_ascii().to_string()
        );
        assert_eq!(request.bytes(), whole.len());
    }

    #[test]
    fn a_request_is_a_frame_whose_number_can_change() {
        let arguments = Arguments::of("exists").bytes(1, b"ab").flag(3, true);
        let mut request = arguments.finish(100).expect("short enough");
        let expected = b"\x80\x01\0\x01\0\0\0\x06exists\0\0\0\x05\x0b\0\x01\0\0\0\x02ab\
                         \x02\0\x03\x01\0";
        let frame = request.frame(5).to_vec();
        assert_eq!(&frame[4..], expected);
        assert_eq!(frame[..4], (expected.len() as u32).to_be_bytes());
        let other = request.frame(0x0102_0304).to_vec();
        let differ = frame.iter().zip(&other).filter(|(a, b)| a != b).count();
        assert_eq!((differ, request.bytes()), (4, frame.len()));
    }

    #[test]
    fn a_request_over_the_limit_is_refused() {
        let bytes = Arguments::of("exists").bytes(1, b"ab");
        let bytes = bytes.finish(100).expect("short enough").bytes();
        let finish = |limit| Arguments::of("exists").bytes(1, b"ab").finish(limit);
        assert!(finish(bytes).is_ok());
        let error = finish(bytes - 1).expect_err("too long");
        assert!(
            error.to_string().contains("max_frame_size_in_mb"),
            "{error}"
        );
    }

    #[test]
    fn results_and_refusals_are_told_apart() {
        let flag = decode(&flag_message(), "exists", 7, &FLAG);
        assert!(matches!(flag, Ok(Answer::Result(true))), "{flag:?}");
        let refused = message("exists", TMessageType::Reply, |protocol| {
            field(protocol, TType::Struct, 1)?;
            TIOError::new("NotServingRegionException".to_owned(), true)
                .write_to_out_protocol(protocol)
        });
        let refused = decode(&refused, "exists", 7, &FLAG);
        assert!(
            matches!(&refused, Ok(Answer::Refusal(r)) if r.can_retry && r.class.is_some()),
            "{refused:?}"
        );
        let unknown = message("exists", TMessageType::Exception, |protocol| {
            field(protocol, TType::String, 1)?;
            protocol.write_string("Invalid method name: 'exists'")?;
            field(protocol, TType::I32, 2)?;
            protocol.write_i32(ApplicationErrorKind::UnknownMethod as i32)
        });
        let unknown = decode(&unknown, "exists", 7, &FLAG);
        assert!(
            matches!(&unknown, Ok(Answer::Refusal(r)) if r.origin == Origin::UnknownMethod),
            "{unknown:?}"
        );
        let nothing = message("put", TMessageType::Reply, |_| Ok(()));
        assert!(matches!(
            decode(&nothing, "put", 7, &VOID),
            Ok(Answer::Result(()))
        ));
    }

    #[test]
    fn what_is_no_answer_says_why() {
        let whole = flag_message();
        let fault = |message: &[u8], method, number| {
            decode(message, method, number, &FLAG).expect_err("no answer")
        };
        assert!(fault(&whole, "exists", 8).contains("call 8"));
        assert!(fault(&whole, "get", 7).contains("\"get\""));
        assert!(fault(&[&whole[..], b"x"].concat(), "exists", 7).contains("1 bytes"));
        for end in 0..whole.len() {
            let cut = fault(&whole[..end], "exists", 7);
            assert!(cut.contains("ends within"), "{end}: {cut}");
        }
        let call = message("exists", TMessageType::Call, |_| Ok(()));
        assert!(fault(&call, "exists", 7).contains("no answer"));
        let empty = message("exists", TMessageType::Reply, |_| Ok(()));
        assert!(fault(&empty, "exists", 7).contains("without a result"));
        let other = message("exists", TMessageType::Reply, |protocol| {
            field(protocol, TType::I32, 0)?;
            protocol.write_i32(1)
        });
        assert!(fault(&other, "exists", 7).contains("without a result"));
    }

    /// A list of a billion elements in a frame of a hundred bytes reserves no billion places.
    #[test]
    fn announced_lengths_are_not_believed() {
        let announced = |elements: i32, element| {
            message("getMultiple", TMessageType::Reply, move |protocol| {
                field(protocol, TType::List, 0)?;
                protocol.write_list_begin(&TListIdentifier::new(element, elements))?;
                protocol.write_bytes(&[0; 40])
            })
        };
        for elements in [i32::MAX, i32::MIN, -1, 1_000_000_000, 10_000, 90] {
            for element in [TType::Struct, TType::String, TType::I64, TType::Bool] {
                let shape = structures::<TResult>();
                let message = announced(elements, element);
                let answer = decode(&message, "getMultiple", 7, &shape);
                assert!(answer.is_err(), "{elements} of {element}");
            }
        }
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let row = TResult {
            row: Some(b"r".to_vec()),
            column_values: vec![TColumnValue {
                family: b"f".to_vec(),
                qualifier: b"q".to_vec(),
                value: vec![0, 255],
                timestamp: Some(-1),
                tags: None,
                type_: Some(4),
            }],
            stale: Some(false),
            partial: None,
        };
        let rows = vec![row.clone(); 3];
        let message = message("getMultiple", TMessageType::Reply, |protocol| {
            field(protocol, TType::List, 0)?;
            protocol.write_list_begin(&TListIdentifier::new(TType::Struct, 3))?;
            let mut rows = rows.iter();
            rows.try_for_each(|row| row.write_to_out_protocol(protocol))
        });
        let shape = structures::<TResult>();
        let answer = decode(&message, "getMultiple", 7, &shape);
        let Ok(Answer::Result(read)) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(read, rows);
    }
}
