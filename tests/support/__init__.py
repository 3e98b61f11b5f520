"""What tests share: the stage, clients, receivers, and what they start from. Test modules do not import each other."""
