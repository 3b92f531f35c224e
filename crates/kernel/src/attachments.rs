//! Images and documents of a conversation: what a request has room for, and what stands for the rest.

use std::sync::Arc;

use tooloop_model::{Content, ContentBlock, HistoryMessage, Image, Message, ToolResult, ToolUse};

/// What stands for an image or a document that a provider refused.
pub(crate) const REFUSED: &str = "was left out: the provider refused it";

/// What stands for one that is no longer sent since there are too many.
const TOO_MANY: &str = "was left out: the conversation holds too many images. Read it again if you \
                        need it";

/// What stands for one in a summary and in the request for it.
pub(crate) const COMPACTED: &str = "was left out of the summary";

/// Providers take images of any size up to so many, and only small ones beyond.
const MANY: usize = 20;

/// The longest side of a small image, in pixels.
const SMALL_SIDE: u32 = 2_000;

/// The most images of a request.
const MOST: usize = 100;

/// The most bytes of all images of a request, as they are sent.
const MOST_BYTES: usize = 20 << 20;

/// Images are left out in groups of so many, and of so many bytes: each time it happens, the provider
/// has to read the conversation anew.
const GROUP: usize = 10;
const GROUP_BYTES: usize = 5 << 20;

/// The images and documents of a message.
pub(crate) fn count(message: &Message) -> usize {
    let attached = |content: &[Content]| content.iter().filter(|part| is_attached(part)).count();
    match message {
        Message::User(content) => attached(content),
        Message::ToolResults(results) => {
            let each = results.iter().map(|result| attached(&result.content));
            each.fold(0, usize::saturating_add)
        }
        Message::Assistant(_) => 0,
    }
}

const fn is_attached(part: &Content) -> bool {
    match part {
        Content::Image(_) | Content::Document(_) => true,
        Content::Text(_) => false,
    }
}

/// The content with a line of text for each image and document.
pub(crate) fn replaced<'a>(
    content: &'a [Content],
    why: &'a str,
) -> impl Iterator<Item = Content> + 'a {
    content.iter().map(move |part| match part {
        Content::Text(_) => part.clone(),
        Content::Image(_) => Content::Text(format!("(An image {why}.)")),
        Content::Document(_) => Content::Text(format!("(A document {why}.)")),
    })
}

/// The message with a line of text for each image and document; `None` if it has none.
pub(crate) fn without(message: &Message, why: &str) -> Option<Message> {
    if count(message) == 0 {
        return None;
    }
    map_content(message, |content| replaced(content, why).collect())
}

fn map_content(
    message: &Message,
    mut map: impl FnMut(&[Content]) -> Vec<Content>,
) -> Option<Message> {
    match message {
        Message::User(content) => Some(Message::User(map(content))),
        Message::ToolResults(results) => {
            let results = results.iter().map(|result| ToolResult {
                content: map(&result.content),
                ..result.clone()
            });
            Some(Message::ToolResults(results.collect()))
        }
        Message::Assistant(_) => None,
    }
}

/// The reply without its reasoning and without what the provider wants back with its calls; `None` if
/// it has neither.
pub(crate) fn without_thinking(message: &Message) -> Option<Message> {
    let Message::Assistant(reply) = message else {
        return None;
    };
    let mut rest = reply.clone();
    rest.content.retain(|block| {
        !matches!(
            block,
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking(_)
        )
    });
    for block in &mut rest.content {
        if let ContentBlock::ToolUse(ToolUse { vendor, .. }) = block {
            *vendor = None;
        }
    }
    (rest != *reply).then_some(Message::Assistant(rest))
}

/// The messages as a summary is made of them.
pub(crate) fn left_out_of_summary(messages: &[Arc<HistoryMessage>]) -> Vec<Arc<HistoryMessage>> {
    let each = messages.iter().map(|message| {
        without(message.message(), COMPACTED).map_or_else(
            || Arc::clone(message),
            |rest| Arc::new(HistoryMessage::new(rest)),
        )
    });
    each.collect()
}

/// The messages as they are sent: if there are more images, or more bytes of them, than providers
/// take, a line of text stands for the oldest ones.
pub(crate) fn fitting(messages: &[Arc<HistoryMessage>]) -> Vec<Arc<HistoryMessage>> {
    let images: Vec<&Image> = messages
        .iter()
        .flat_map(|message| images(message.message()))
        .collect();
    let out = too_many(&images);
    if !out.contains(&true) {
        return messages.to_vec();
    }
    let mut out = out.into_iter();
    let mut fit = |content: &[Content]| {
        let parts = content.iter().map(|part| match part {
            Content::Image(_) if out.next() == Some(true) => {
                Content::Text(format!("(An image {TOO_MANY}.)"))
            }
            Content::Text(_) | Content::Image(_) | Content::Document(_) => part.clone(),
        });
        parts.collect::<Vec<_>>()
    };
    let each = messages.iter().map(|message| {
        if images_of(message.message()) == 0 {
            return Arc::clone(message);
        }
        map_content(message.message(), &mut fit).map_or_else(
            || Arc::clone(message),
            |rest| Arc::new(HistoryMessage::new(rest)),
        )
    });
    each.collect()
}

fn images(message: &Message) -> Vec<&Image> {
    let content: Vec<&[Content]> = match message {
        Message::User(content) => vec![content],
        Message::ToolResults(results) => results.iter().map(|one| &*one.content).collect(),
        Message::Assistant(_) => Vec::new(),
    };
    let parts = content.into_iter().flatten();
    parts
        .filter_map(|part| match part {
            Content::Image(image) => Some(image),
            Content::Text(_) | Content::Document(_) => None,
        })
        .collect()
}

fn images_of(message: &Message) -> usize {
    images(message).len()
}

/// For each image, oldest first, whether it is left out.
fn too_many(images: &[&Image]) -> Vec<bool> {
    let mut out = vec![false; images.len()];
    let in_groups = |excess: usize, group: usize| excess.div_ceil(group).saturating_mul(group);
    let bytes: usize = images
        .iter()
        .fold(0, |sum, image| sum.saturating_add(image.data.len()));
    let count = in_groups(images.len().saturating_sub(MOST), GROUP);
    let mut excess = in_groups(bytes.saturating_sub(MOST_BYTES), GROUP_BYTES);
    for (place, (image, out)) in images.iter().zip(&mut out).enumerate() {
        // The newest one is what the model is asked about.
        let newest = place.saturating_add(1) == images.len();
        *out = place < count || (excess > 0 && !newest);
        if *out {
            excess = excess.saturating_sub(image.data.len());
        }
    }
    let kept = out.iter().filter(|out| !**out).count();
    let mut excess = in_groups(kept.saturating_sub(MANY), GROUP);
    if excess == 0 {
        return out;
    }
    for (image, out) in images.iter().zip(&mut out) {
        if excess > 0 && !*out && image.longest_side().is_some_and(|side| side > SMALL_SIDE) {
            *out = true;
            excess -= 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a PNG file in base64, padded with zeros.
    fn image(side: u32, length: usize) -> Image {
        let mut data = match side {
            2050 => "iVBORw0KGgoAAAANSUhEUgAACAIAAAAE",
            2000 => "iVBORw0KGgoAAAANSUhEUgAAB9AAAAAE",
            2001 => "iVBORw0KGgoAAAANSUhEUgAAB9EAAAAE",
            _ => "iVBORw0KGgoAAAANSUhEUgAAAGQAAAAE",
        }
        .to_owned();
        data.push_str(&"A".repeat(length.saturating_sub(data.len())));
        Image {
            media_type: "image/png".into(),
            data,
        }
    }

    fn left_out(images: &[Image]) -> Vec<usize> {
        let images: Vec<_> = images.iter().collect();
        let out = too_many(&images);
        (0..out.len()).filter(|place| out[*place]).collect()
    }

    #[test]
    fn many_wide_images_lose_the_oldest() {
        let wide = |count| vec![image(2050, 0); count];
        assert_eq!(left_out(&wide(20)), [0; 0]);
        assert_eq!(left_out(&wide(22)), (0..10).collect::<Vec<_>>());
        // What is left out stays out: the requests keep their beginning.
        assert_eq!(left_out(&wide(30)), (0..10).collect::<Vec<_>>());
        assert_eq!(left_out(&wide(31)), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn small_images_stay_beside_wide_ones() {
        let mut images = vec![image(100, 0); 25];
        assert_eq!(left_out(&images), [0; 0]);
        images[7] = image(2000, 0);
        assert_eq!(left_out(&images), [0; 0]);
        images[7] = image(2001, 0);
        assert_eq!(left_out(&images), [7]);
        assert_eq!(
            left_out(&vec![image(100, 0); 101]),
            (0..10).collect::<Vec<_>>()
        );
    }

    #[test]
    fn requests_have_a_line_for_images_left_out() {
        let message = |images: Vec<Image>| {
            let content = images.into_iter().map(Content::Image);
            let mut content: Vec<_> = content.collect();
            content.push(Content::Text("said".into()));
            Arc::new(HistoryMessage::new(Message::User(content)))
        };
        let few = [message(vec![image(100, 0); 3])];
        assert_eq!(fitting(&few), few);
        let text = Arc::new(HistoryMessage::new(Message::User(vec![Content::Text(
            "none".into(),
        )])));
        let many = [
            message(vec![image(100, 0); 4]),
            text,
            message(vec![image(100, 0); 97]),
        ];
        let sent = fitting(&many);
        let Message::User(first) = sent[0].message() else {
            return;
        };
        let line = Content::Text(format!("(An image {TOO_MANY}.)"));
        assert_eq!(first[..4], vec![line.clone(); 4]);
        assert_eq!(first[4], Content::Text("said".into()));
        assert!(Arc::ptr_eq(&sent[1], &many[1]));
        let Message::User(last) = sent[2].message() else {
            return;
        };
        assert_eq!(last.iter().filter(|part| **part == line).count(), 6);
        assert_eq!(last[96], Content::Image(image(100, 0)));
    }

    #[test]
    fn the_bytes_of_all_images_are_bounded() {
        let images = vec![image(100, 4 << 20); 6];
        // 24 MiB are 4 MiB too many: 5 MiB go, which are two images.
        assert_eq!(left_out(&images), [0, 1]);
        assert_eq!(left_out(&[image(100, 30 << 20)]), [0; 0]);
    }
}
