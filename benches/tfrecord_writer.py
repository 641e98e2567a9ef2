"""tfrecord_writer.py TREE OUT: every file below TREE as a tf.train.Example, with TensorFlow's own writer.

One process, as TensorFlow's users write them: read, build the Example, write the record.
"""

import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf


def main(tree, out):
    classes = sorted(os.listdir(tree))
    with tf.io.TFRecordWriter(os.path.join(out, "all.tfrecord")) as writer:
        for label, name in enumerate(classes):
            folder = os.path.join(tree, name)
            for file in sorted(os.listdir(folder)):
                with open(os.path.join(folder, file), "rb") as opened:
                    image = opened.read()
                feature = {
                    "file_name": tf.train.Feature(bytes_list=tf.train.BytesList(value=[file.encode()])),
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main(*sys.argv[1:3])
