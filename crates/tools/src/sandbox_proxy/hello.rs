//! The first bytes of a tunnel: whether they are a TLS ClientHello, and whom that is for.
//!
//! No more is read than is needed for that, and nothing is believed: each length is held against what
//! is there, and what begins like a ClientHello and is none goes no further.

/// The most bytes of records that are kept while the message is not whole.
pub(super) const MOST: usize = 32 << 10;

/// The largest fragment of a message in one record.
const MOST_OF_A_RECORD: usize = 16 << 10;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// What the first bytes of a tunnel are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hello {
    /// There are too few to tell.
    Unfinished,
    /// No ClientHello, or one that names nobody.
    Nobody,
    /// A ClientHello for this name.
    Name(String),
    /// It begins like a ClientHello and cannot be read as one.
    Unreadable,
}

/// Looks at the first bytes of a tunnel, as far as they are there.
pub(super) fn look(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = Reader(bytes);
    loop {
        // The first record says whether this is TLS at all.
        let is_first = message.is_empty();
        let other = if is_first {
            Hello::Nobody
        } else {
            Hello::Unreadable
        };
        match (rest.0.first(), rest.0.get(1)) {
            (Some(&HANDSHAKE), None | Some(3)) => {}
            (None, _) => return unfinished(bytes),
            _ => return other,
        }
        let Some(length) = rest.0.get(3..5) else {
            return unfinished(bytes);
        };
        let length = number(length);
        if length == 0 || length > MOST_OF_A_RECORD {
            return Hello::Unreadable;
        }
        let fragment = rest.0.get(5..).unwrap_or_default();
        let is_whole = fragment.len() >= length;
        let fragment = fragment.get(..length).unwrap_or(fragment);
        message.extend_from_slice(fragment);
        match message.first() {
            None => return unfinished(bytes),
            Some(&CLIENT_HELLO) => {}
            // Another message: nothing that a server would take for the beginning.
            Some(_) => return Hello::Nobody,
        }
        if let Some(body) = body(&message) {
            return match name(body) {
                Some(Some(name)) => Hello::Name(name),
                Some(None) => Hello::Nobody,
                None => Hello::Unreadable,
            };
        }
        if !is_whole {
            return unfinished(bytes);
        }
        rest.0 = rest.0.get(5 + length..).unwrap_or_default();
    }
}

fn unfinished(bytes: &[u8]) -> Hello {
    if bytes.len() < MOST {
        Hello::Unfinished
    } else {
        Hello::Unreadable
    }
}

/// The body of a handshake message, once it is whole.
fn body(message: &[u8]) -> Option<&[u8]> {
    let length = number(message.get(1..4)?);
    message.get(4..)?.get(..length)
}

/// The name in the body of a ClientHello, if there is one; `None` if it cannot be read.
fn name(body: &[u8]) -> Option<Option<String>> {
    let mut body = Reader(body);
    // The version and the random number.
    body.take(2 + 32)?;
    // The session, the ciphers, the compressions.
    body.block(1)?;
    body.block(2)?;
    body.block(1)?;
    if body.0.is_empty() {
        return Some(None);
    }
    let mut extensions = Reader(body.block(2)?);
    if !body.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = number(extensions.take(2)?);
        let mut content = Reader(extensions.block(2)?);
        if kind != usize::from(SERVER_NAME) {
            continue;
        }
        let mut names = Reader(content.block(2)?);
        if !content.0.is_empty() {
            return None;
        }
        while !names.0.is_empty() {
            let kind = names.take(1)?;
            let name = names.block(2)?;
            // Two of them may be read in two ways.
            if kind != [HOST_NAME] || found.is_some() {
                return None;
            }
            found = Some(std::str::from_utf8(name).ok()?.to_owned());
        }
    }
    Some(found)
}

/// A number as it is sent, the highest byte first: of three bytes at most.
fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Bytes that are not read yet.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A block behind its length, which has this many bytes.
    fn block(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let length = number(self.take(bytes)?);
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        let mut block = length.get(4 - bytes..).unwrap().to_vec();
        block.extend(content);
        block
    }

    fn server_name(names: &[&str]) -> Vec<u8> {
        let names: Vec<u8> = names
            .iter()
            .flat_map(|name| [vec![HOST_NAME], block(2, name.as_bytes())].concat())
            .collect();
        [vec![0, 0], block(2, &block(2, &names))].concat()
    }

    fn message(extensions: Option<&[u8]>) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend(block(1, &[1; 32]));
        body.extend(block(2, &[0x13, 0x01, 0x13, 0x02]));
        body.extend(block(1, &[0]));
        body.extend(
            extensions
                .map(|content| block(2, content))
                .unwrap_or_default(),
        );
        [vec![CLIENT_HELLO], block(3, &body)].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |piece: &[u8]| [vec![HANDSHAKE, 3, 1], block(2, piece)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        records(&message(Some(extensions)), MOST_OF_A_RECORD)
    }

    const OTHER: [u8; 8] = [0, 43, 0, 4, 3, 3, 4, 3];

    #[test]
    fn the_name_is_found_wherever_it_stands() {
        let name = server_name(&["a.test"]);
        let found = Hello::Name("a.test".into());
        for extensions in [
            name.clone(),
            [&OTHER[..], &name].concat(),
            [&name[..], &OTHER].concat(),
        ] {
            assert_eq!(look(&hello(&extensions)), found);
            // What follows does not matter, and records may be as small as one byte.
            assert_eq!(look(&[hello(&extensions), vec![1; 9]].concat()), found);
            for size in [1, 5, 100] {
                assert_eq!(look(&records(&message(Some(&extensions)), size)), found);
            }
        }
    }

    #[test]
    fn it_is_waited_for_until_it_is_whole() {
        let name = server_name(&["a.test"]);
        for whole in [hello(&name), records(&message(Some(&name)), 40)] {
            for cut in 0..whole.len() {
                let look = look(whole.get(..cut).unwrap());
                assert_eq!(look, Hello::Unfinished, "{cut} of {}", whole.len());
            }
        }
        // Not without end.
        let long = records(
            &[&[CLIENT_HELLO, 255, 255, 255][..], &vec![0; MOST]].concat(),
            9000,
        );
        assert_eq!(look(long.get(..MOST - 1).unwrap()), Hello::Unfinished);
        assert_eq!(look(long.get(..MOST).unwrap()), Hello::Unreadable);
    }

    #[test]
    fn what_is_no_hello_or_names_nobody_is_let_through() {
        let other_message = [2, 0, 0, 0];
        for bytes in [
            b"SSH-2.0-x\r\n".to_vec(),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![HANDSHAKE, 2, 0],
            vec![HANDSHAKE + 1, 3, 3, 0, 1, 1],
            records(&other_message, 4),
            hello(&OTHER),
            hello(&[]),
            records(&message(None), 200),
        ] {
            assert_eq!(look(&bytes), Hello::Nobody, "{bytes:?}");
        }
    }

    #[test]
    fn what_may_be_read_in_two_ways_is_not_read() {
        let name = server_name(&["a.test"]);
        let mut longer = message(Some(&name));
        longer.push(0);
        // One byte more in the message than its body has.
        if let Some(length) = longer.get_mut(3) {
            *length += 1;
        }
        let mut kind = name.clone();
        if let Some(kind) = kind.get_mut(6) {
            *kind = 1;
        }
        let first = records(message(Some(&name)).get(..20).unwrap(), 20);
        for bytes in [
            hello(&server_name(&["a.test", "b.test"])),
            hello(&[&name[..], &server_name(&["b.test"])].concat()),
            hello(&[&name[..], &[0, 9, 0]].concat()),
            hello(&[0, 0, 0, 3, 0, 9, 0]),
            hello(&kind),
            records(&longer, 500),
            [&first[..], &[23, 3, 3, 0, 1, 0]].concat(),
            [&first[..], &[HANDSHAKE, 3, 3, 0, 0]].concat(),
            [&first[..], &[HANDSHAKE, 3, 3, 0xff, 0xff]].concat(),
            vec![HANDSHAKE, 3, 1, 0, 0],
        ] {
            assert_eq!(look(&bytes), Hello::Unreadable, "{bytes:?}");
        }
    }

    #[test]
    fn no_bytes_are_too_odd_to_look_at() {
        let whole = hello(&[&OTHER[..], &server_name(&["a.test"])].concat());
        for place in 0..whole.len() {
            for value in [0, 1, 2, 3, 22, 127, 128, 255] {
                let mut odd = whole.clone();
                if let Some(byte) = odd.get_mut(place) {
                    *byte = value;
                }
                for cut in [odd.len() / 2, odd.len()] {
                    drop(look(odd.get(..cut).unwrap()));
                }
            }
        }
    }
}
